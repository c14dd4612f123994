"""The table data that exports use: columns, facts, claims and checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nimblepy.table.claims.checks import Check, Checks
from nimblepy.table.claims.facts import Facts
from nimblepy.table.claims.kinds import Claim
from nimblepy.table.claims.subject import Lake, Subject


@dataclass(frozen=True)
class Described:
    """A table with its claims and their checks.

    Attributes:
        ids: field ids by name, of columns and of fields of structs.
        keys: the primary keys of referenced tables, if they have one column.
    """

    name: str
    schema: pa.Schema
    ids: Mapping[str, int]
    primary_key: list[str]
    facts: Facts
    checks: Checks
    keys: Mapping[str, str]

    def claims(self, column: str | None = None) -> Iterator[Claim]:
        """Returns the claims about a column, or about the table itself."""
        return (check.claim for check in self.of(column))

    def of(self, column: str | None = None) -> Iterator[Check]:
        """Returns the checks of the claims about a column, or about the table itself."""
        return (check for check in self.checks if check.claim.column == column)

    def value(self, kind: str, column: str | None = None) -> Any:
        """Returns the value of the first claim of a kind; ``None`` without such a claim."""
        return next((c.value for c in self.claims(column) if c.kind == kind), None)

    def reference(self, column: str) -> tuple[str, str] | None:
        """Returns the table and the key column that a column references."""
        value = self.value("references", column)
        if value is None:
            return None
        key = value.get("column") or self.keys.get(value["table"])
        return None if key is None else (value["table"], key)

    @property
    def columns(self) -> list[str]:
        """Returns the names of columns, and of fields of structs that have claims."""
        named = [check.claim.column for check in self.checks]
        return list(dict.fromkeys([*self.schema.names, *(name for name in named if name)]))

    def kind(self, column: str) -> pa.DataType:
        """Returns the type of a column, or of a field of a struct."""
        first, *rest = column.split(".")
        field = self.schema.field(first)
        for name in rest:
            field = field.type.field(name)
        return field.type


def described(subject: Subject, checks: Checks, lake: Lake) -> Described:
    """Collects the data of a table for exports."""
    keys = {}
    for check in checks:
        if check.claim.kind == "references":
            parent = lake.subject(check.claim.value["table"])
            if parent is not None and len(parent.primary_key) == 1:
                keys[parent.name] = parent.primary_key[0]
    metadata = subject.metadata
    ids = metadata.ice_schema(subject.schema_id)
    names = {number: metadata.column_name(number, subject.schema_id) for number in ids.field_ids}
    return Described(
        name=subject.name,
        schema=metadata.schema(subject.schema_id),
        ids={name: number for number, name in names.items() if name is not None},
        primary_key=subject.primary_key,
        facts=subject.facts,
        checks=checks,
        keys=keys,
    )
