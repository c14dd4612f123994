"""``nimble describe``: prints and checks the descriptions of tables."""

from __future__ import annotations

import json
from typing import Any

import typer

from nimblepy.cli.output import print_json
from nimblepy.cli.sources import existing_catalog, is_table, open_lake
from nimblepy.errors import InvalidArgumentError, NimbleError
from nimblepy.table.catalog import Catalog, connect
from nimblepy.table.claims.checks import Checks
from nimblepy.table.claims.ossie import from_ossie
from nimblepy.table.exchange import export_claims, import_claims
from nimblepy.table.table import Table

# For each value of --fail-on: the statuses of checks that count as findings.
_FINDINGS = {
    "contradicted": {"contradicted"},
    "suspect": {"contradicted", "suspect"},
    "overdue": {"contradicted", "overdue"},
    "unchecked": {"contradicted", "suspect", "overdue", "unchecked"},
}


def run_describe(
    text: str, *, check: bool, deep: bool, fail_on: list[str] | None, as_json: bool
) -> bool:
    """Prints the claims of tables, or their checks. Returns whether there are findings."""
    unknown = [status for status in fail_on or () if status not in _FINDINGS]
    if unknown:
        raise InvalidArgumentError(
            f"--fail-on {unknown[0]}: expected one of {', '.join(_FINDINGS)}"
        )
    lake, names = _tables(text)
    if not (check or deep or fail_on):
        described = [_described(lake.table(name)) for name in names]
        if as_json:
            print_json(described)
        else:
            typer.echo("\n\n".join(_shown(item) for item in described))
        return False
    checks, unreadable = {}, []
    for name in names:
        try:
            checks[name] = lake.table(name).check(deep=deep)
        except (NimbleError, OSError) as error:
            if len(names) == 1:
                raise
            unreadable.append(f"{name}: {error}")
    if as_json:
        print_json({name: _plain(item) for name, item in checks.items()})
    else:
        typer.echo("\n".join(repr(item) for item in checks.values()))
    if unreadable:
        shown = "\n".join(unreadable)
        raise OSError(f"{len(unreadable)} of {len(names)} tables cannot be checked:\n{shown}")
    findings = set().union(*(_FINDINGS[status] for status in fail_on or ["contradicted"]))
    return any(one.status in findings for item in checks.values() for one in item)


def _tables(text: str) -> tuple[Catalog, list[str]]:
    if is_table(text):
        lake, name = open_lake(text)
        return lake, [name]
    lake = connect(existing_catalog(text), create=False)
    return lake, lake.tables()


def run_import(text: str, path: str, *, allow_contradicted: bool, as_json: bool) -> None:
    """Stores the claims of an Ossie document."""
    with open(path, encoding="utf-8") as source:
        try:
            document = json.load(source)
        except ValueError as error:
            raise InvalidArgumentError(f"{path}: not JSON: {error}") from error
    lake, names = _tables(text)
    done = import_claims(lake, from_ossie(document), names, allow_contradicted)
    if as_json:
        print_json({name: len(item.claims) for name, item in done.items()})
    else:
        for name, item in done.items():
            typer.echo(f"{name}: {len(item.claims)} claims stored")


def run_export(text: str, form: str, folder: str) -> None:
    """Exports the descriptions of tables in a format of other tools."""
    lake, names = _tables(text)
    for path in export_claims(lake, names, form, folder):
        typer.echo(path)


def _plain(checks: Checks) -> dict[str, Any]:
    return {
        "snapshot": None if checks.snapshot is None else str(checks.snapshot),
        "checks": [check.to_dict() for check in checks],
    }


def _described(table: Table) -> dict[str, Any]:
    facts = table.facts()
    return {
        "table": table.name,
        "description": table.comment,
        "rows": facts.rows,
        "last_changed": facts.last_changed,
        "snapshot": None if table.snapshot is None else str(table.snapshot),
        "primary_key": table.primary_key,
        "columns": {field.name: str(field.type) for field in table.schema},
        "claims": [
            {
                "kind": claim.kind,
                "column": claim.column,
                "value": claim.value,
                "at": None if claim.at is None else str(claim.at),
                "by": claim.by,
            }
            for claim in table.claims
        ],
    }


def _shown(described: dict[str, Any]) -> str:
    """Returns the description of a table, for people."""
    lines = [f"{described['table']}: {described['rows']:,} rows"]
    if described["description"]:
        lines.append(f"  {described['description']}")
    by_column: dict[str | None, list[str]] = {}
    for claim in described["claims"]:
        if (claim["column"], claim["kind"]) != (None, "description"):
            is_text = claim["kind"] == "description"
            shown = claim["value"] if is_text else f"{claim['kind']} {claim['value']}"
            by_column.setdefault(claim["column"], []).append(str(shown))
    lines += [f"  {claim}" for claim in by_column.pop(None, [])]
    for name, kind in described["columns"].items():
        key = ", primary key" if name in described["primary_key"] else ""
        lines.append(f"  {name} ({kind}{key})")
        lines += [f"    {claim}" for claim in by_column.pop(name, [])]
    for name, claims in by_column.items():  # fields of structs
        lines.append(f"  {name}")
        lines += [f"    {claim}" for claim in claims]
    return "\n".join(lines)
