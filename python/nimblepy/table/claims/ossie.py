"""Converts claims to and from semantic models of Ossie (core specification 1.0).

Ossie is short for Open Semantic Interchange. An extension contains all claims, so that converting
them back is lossless. The ``vendor_name`` of an extension is an enumeration without nimblepy, so
the extension is ``COMMON`` and has the key ``nimblepy``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.table.claims.described import Described
from nimblepy.table.claims.kinds import Claim, json_value

_VENDOR, _KEY = "COMMON", "nimblepy"


def to_ossie(tables: Sequence[Described], name: str) -> dict[str, Any]:
    """Returns a document with all tables as datasets of one semantic model."""
    return {
        "version": "1.0",
        "semantic_model": [
            {
                "name": name,
                "datasets": [_dataset(table) for table in tables],
                "relationships": [item for table in tables for item in _relationships(table)],
            }
        ],
    }


def _dataset(table: Described) -> dict[str, Any]:
    dataset: dict[str, Any] = {"name": _short(table.name), "source": table.name}
    if table.primary_key:
        dataset["primary_key"] = table.primary_key
    unique = table.value("unique")
    if unique and unique != table.primary_key:
        dataset["unique_keys"] = [unique]
    description = table.value("description")
    if description:
        dataset["description"] = description
    synonyms = table.value("synonyms")
    if synonyms:
        dataset["ai_context"] = {"synonyms": synonyms}
    dataset["fields"] = [_field(table, column) for column in table.columns]
    dataset["custom_extensions"] = _extension(table.claims())
    return dataset


def _field(table: Described, column: str) -> dict[str, Any]:
    kind = table.kind(column)
    dialects = [{"dialect": "ANSI_SQL", "expression": column}]
    item: dict[str, Any] = {
        "name": column,
        "expression": {"dialects": dialects},
        "dimension": {"is_time": pt.is_date(kind) or pt.is_timestamp(kind)},
    }
    description = table.value("description", column)
    if description:
        item["description"] = description
    own = list(table.claims(column))
    if own:
        item["custom_extensions"] = _extension(own)
    return item


def _relationships(table: Described) -> Iterable[dict[str, Any]]:
    for column in table.columns:
        reference = table.reference(column)
        if reference is not None:
            yield {
                "name": f"{_short(table.name)}_{column}",
                "from": _short(table.name),
                "to": _short(reference[0]),
                "from_columns": [column],
                "to_columns": [reference[1]],
            }


def _short(name: str) -> str:
    return name.replace(".", "_")


def _extension(claims: Iterable[Claim]) -> list[dict[str, Any]]:
    items = [plain_claim(claim) for claim in claims]
    return [{"vendor_name": _VENDOR, "data": json.dumps({_KEY: items}, ensure_ascii=False)}]


def plain_claim(claim: Claim) -> dict[str, Any]:
    """Converts a claim to JSON.

    Codes of ``values`` become pairs, because JSON keys are always text.
    """
    value = claim.value
    if claim.kind == "values" and isinstance(value, dict):
        value = [[json_value(code), meaning] for code, meaning in value.items()]
    item = {"kind": claim.kind, "value": value}
    if claim.at is not None:
        item["at"] = str(claim.at)
    return item | ({} if claim.by is None else {"by": claim.by})


# ---------------------------------------------------------------------- reading


def from_ossie(document: Mapping[str, Any]) -> dict[str, list[Claim]]:
    """Returns the claims of a document by table: those in our extensions, and those of other tools.

    Raises:
        InvalidArgumentError: the document is not a semantic model.
    """
    try:
        (model,) = document["semantic_model"]
        claims = {str(item["source"]): _claims(item) for item in model["datasets"]}
        sources = {item["name"]: str(item["source"]) for item in model["datasets"]}
        for relation in model.get("relationships", ()):
            _add_relation(claims, sources, relation)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgumentError(
            f"Ossie: expected a document with one semantic model: {error!r}"
        ) from error
    return claims


def _claims(dataset: Mapping[str, Any]) -> list[Claim]:
    own = _own(dataset)
    claims = [_claim(item, None) for item in own or ()]
    if own is None:
        claims += _texts(dataset, None)
        keys = dataset.get("unique_keys") or [dataset.get("primary_key")]
        claims += [Claim(kind="unique", column=None, value=list(key)) for key in keys[:1] if key]
    for item in dataset.get("fields", ()):
        own = _own(item)
        claims += _texts(item, item["name"]) if own is None else []
        claims += [_claim(entry, item["name"]) for entry in own or ()]
    return claims


def _own(item: Mapping[str, Any]) -> list[Any] | None:
    """Returns our extension of an item."""
    for extension in item.get("custom_extensions", ()):
        if extension["vendor_name"] == _VENDOR:
            data = json.loads(extension["data"])
            if _KEY in data:
                return list(data[_KEY])
    return None


def _claim(item: Mapping[str, Any], column: str | None) -> Claim:
    value = item["value"]
    if item["kind"] == "values":
        value = dict(value)
    at = item.get("at")
    return Claim(
        kind=item["kind"],
        column=column,
        value=value,
        at=None if at is None else int(at),
        by=item.get("by"),
    )


def _texts(item: Mapping[str, Any], column: str | None) -> list[Claim]:
    """Returns the description and synonyms of a dataset or field that another tool wrote."""
    claims = []
    if item.get("description"):
        claims.append(Claim(kind="description", column=column, value=item["description"]))
    context = item.get("ai_context")
    if isinstance(context, str):  # both forms are valid
        synonyms = [text.strip() for text in context.split(",") if text.strip()]
    else:
        synonyms = list((context or {}).get("synonyms", ()))
    if synonyms and column is None:
        claims.append(Claim(kind="synonyms", column=None, value=synonyms))
    return claims


def _add_relation(
    claims: dict[str, list[Claim]], sources: Mapping[str, str], relation: Mapping[str, Any]
) -> None:
    if len(relation["from_columns"]) != 1:
        return
    (column,), (key,) = relation["from_columns"], relation["to_columns"]
    own = claims[sources[relation["from"]]]
    if not any(claim.kind == "references" and claim.column == column for claim in own):
        value = {"table": sources[relation["to"]], "column": key, "orphans": 0.0}
        own.append(Claim(kind="references", column=column, value=value))
