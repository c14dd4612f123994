"""Exports claims as OKF pages, ODCS contracts and labels of Iceberg's REST catalogs."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.table.claims.checks import Check
from nimblepy.table.claims.described import Described
from nimblepy.table.claims.kinds import Claim, age_seconds
from nimblepy.table.claims.ossie import plain_claim


def to_okf(table: Described) -> str:
    """Returns a page in the Open Knowledge Format. Its front matter is JSON, which is also YAML.

    Lists claims as verified only if a check verified them. If a claim is contradicted, lists none.
    """
    deprecated_by = table.value("deprecated")
    contradicted = bool(table.checks.contradicted)
    status = "draft" if contradicted else "active"
    description = table.value("description") or ""
    head: dict[str, Any] = {
        "type": "Table",
        "title": table.name,
        "description": description.partition("\n")[0],
        "resource": f"lake://{table.name.replace('.', '/')}",
        "status": "deprecated" if isinstance(deprecated_by, str) else status,
        "snapshot": _text_of(table.facts.snapshot),
    }
    if table.facts.last_changed is not None:
        head["timestamp"] = table.facts.last_changed.isoformat()
        fresh = table.value("fresh")
        if fresh is not None:
            due = table.facts.last_changed + dt.timedelta(seconds=age_seconds(fresh))
            head["stale_after"] = due.isoformat()
    if isinstance(deprecated_by, str):
        head["superseded_by"] = deprecated_by
    verified = [_title(c.claim) for c in table.checks if c.status == "verified"]
    head["verified"] = [] if contradicted else verified
    lines = ["---", json.dumps(head, ensure_ascii=False, indent=1), "---", f"# {table.name}"]
    lines += ["", description] if description else []
    lines += ["", *(_item(check) for check in table.of(None) if not _is_text(check.claim))]
    lines += ["", "## Schema", ""]
    for column in table.columns:
        text = table.value("description", column)
        lines.append(f"* `{column}` {table.kind(column)}{f': {text}' if text else ''}")
        lines += [f"  {_item(c)}" for c in table.of(column) if not _is_text(c.claim)]
    return "\n".join(lines) + "\n"


def _is_text(claim: Claim) -> bool:
    return claim.kind == "description"


def _title(claim: Claim) -> str:
    return claim.kind if claim.column is None else f"{claim.column}: {claim.kind}"


def _item(check: Check) -> str:
    value = json.dumps(plain_claim(check.claim)["value"], ensure_ascii=False)
    observed = "" if check.observed is None else f"; observed: {check.observed}"
    return f"* {check.claim.kind} {value} ({check.status}{observed})"


def _text_of(number: int | None) -> str | None:
    return None if number is None else str(number)


def to_odcs(table: Described) -> dict[str, Any]:
    """Returns a contract of the Open Data Contract Standard 3.1."""
    item: dict[str, Any] = {
        "name": table.name,
        "physicalName": table.name,
        "logicalType": "object",
        "physicalType": "table",
        "properties": [_property(table, column) for column in table.columns],
    }
    description = table.value("description")
    if description:
        item["description"] = description
    rules = [claim.value for claim in table.claims() if claim.kind == "rule"]
    quality = [_rule(table.name, rule) for rule in rules]
    unique = table.value("unique")
    if unique:
        arguments = {"properties": list(unique)}
        duplicates = {"metric": "duplicateValues", "arguments": arguments, "mustBe": 0}
        quality.append({"type": "library", **duplicates})
    if quality:
        item["quality"] = quality
    deprecated = isinstance(table.value("deprecated"), str)
    contract: dict[str, Any] = {
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": table.name,
        "name": table.name,
        "version": _text_of(table.facts.snapshot) or "0",
        "status": "deprecated" if deprecated else "active",
        "schema": [item],
    }
    fresh = table.value("fresh")
    if fresh is not None:
        hours = age_seconds(fresh) / 3600
        sla = {"property": "latency", "value": hours, "unit": "h", "element": table.name}
        contract["slaProperties"] = [sla]
    return contract


def _rule(table: str, condition: str) -> dict[str, Any]:
    query = f"SELECT count(*) FROM {table} WHERE NOT ({condition})"
    return {"type": "sql", "query": query, "mustBe": 0}


def _property(table: Described, column: str) -> dict[str, Any]:
    kind = table.kind(column)
    item: dict[str, Any] = {
        "name": column,
        "logicalType": _logical_type(kind),
        "physicalType": str(kind),
        "required": bool(table.value("not_null", column)),
    }
    if column in table.primary_key:
        position = table.primary_key.index(column) + 1
        item |= {"primaryKey": True, "primaryKeyPosition": position}
    description = table.value("description", column)
    if description:
        item["description"] = description
    codes = table.value("values", column)
    if codes:
        arguments = {"validValues": list(codes)}
        valid = {"metric": "invalidValues", "arguments": arguments, "mustBe": 0}
        item["quality"] = [{"type": "library", **valid}]
    reference = table.reference(column)
    if reference is not None:
        item["relationships"] = [{"type": "foreignKey", "to": ".".join(reference)}]
    return item


_LOGICAL = (
    (pt.is_boolean, "boolean"),
    (pt.is_integer, "integer"),
    (pt.is_floating, "number"),
    (pt.is_decimal, "number"),
    (pt.is_date, "date"),
    (pt.is_timestamp, "timestamp"),
    (pt.is_time, "time"),
    (pt.is_struct, "object"),
    (pt.is_map, "object"),
    (pt.is_nested, "array"),
)


def _logical_type(kind: pa.DataType) -> str:
    return next((name for matches, name in _LOGICAL if matches(kind)), "string")


def to_labels(table: Described) -> dict[str, Any]:
    """Returns labels in the form of Iceberg's REST catalogs: texts, by field id."""
    fields = [
        {"field-id": table.ids[column], "labels": labels}
        for column in table.columns
        if (labels := _labels(table.of(column)))
    ]
    return {"labels": {"object-labels": _labels(table.of(None)), "fields": fields}}


def _labels(checks: Iterable[Check]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for check in checks:
        value = plain_claim(check.claim)["value"]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        name = f"nimblepy.{check.claim.kind}"
        if name in labels:  # several rules
            name = f"{name}.{sum(key.startswith(name) for key in labels)}"
        labels[name] = text
        labels[f"{name}.status"] = check.status
    return labels
