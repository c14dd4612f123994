"""Describes tables: checks new claims, then stores them in one commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from nimblepy.errors import InvalidArgumentError
from nimblepy.io.log import logger
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.field_ids import field_id_at
from nimblepy.schema.values import show
from nimblepy.table import iceberg as ice
from nimblepy.table.base.arguments import text_of, texts_of
from nimblepy.table.base.places import parse_name
from nimblepy.table.claims.check import check_all, names_in, typed
from nimblepy.table.claims.checks import Checks
from nimblepy.table.claims.drift import fingerprint
from nimblepy.table.claims.kinds import (
    COLUMN_CLAIMS,
    Claim,
    Range,
    Reconcile,
    Unit,
    age_text,
    json_value,
)
from nimblepy.table.claims.store import (
    FINGERPRINTED,
    Stored,
    check_sizes,
    property_of,
    property_text,
    public_claim,
    read_claims,
)
from nimblepy.table.claims.subject import Lake, Subject
from nimblepy.table.evolve import Alter
from nimblepy.table.handle import TableHandle, TableState

_log = logger(__name__)


class Unset:
    """The type of :data:`UNSET`."""

    def __repr__(self) -> str:
        return "..."


# Marks an argument that was not given, because ``None`` removes a claim.
UNSET = Unset()


@dataclass(frozen=True, kw_only=True)
class Description:
    """The result of ``describe`` and ``confirm``.

    Attributes:
        snapshot: id of the snapshot that the claims were checked against.
        claims: the claims that were stored.
        checks: their checks.
    """

    snapshot: int | None
    claims: tuple[Claim, ...]
    checks: Checks


class Tables(Protocol):
    """The part of a catalog that checks use."""

    def tables(self) -> list[str]:
        """Returns the names of all tables."""

    def table(self, name: str) -> TableHandle:
        """Opens a table at its newest snapshot."""


class CatalogLake:
    """Opens the tables of a catalog for checks, each table once."""

    def __init__(self, catalog: Tables) -> None:
        self._catalog = catalog
        self._subjects: dict[str, Subject | None] = {}
        self._names: list[str] | None = None

    @property
    def key(self) -> str:
        return repr(self._catalog)

    def names(self) -> Collection[str]:
        if self._names is None:
            self._names = self._catalog.tables()
        return self._names

    def subject(self, name: str) -> Subject | None:
        if name not in self._subjects:
            try:
                parse_name(name)
                handle = self._catalog.table(name)
            except InvalidArgumentError:
                self._subjects[name] = None
            else:
                self._subjects[name] = subject_of(handle)
        return self._subjects[name]


def subject_of(table: TableHandle) -> Subject:
    """Returns the table at the snapshot that a handle shows, with the newest claims that the handle
    knows.
    """
    at = TableState(table).position
    return Subject(at.rows, at.newest, at.snapshot, at.schema_id)


def lake_of(table: TableHandle) -> CatalogLake:
    """Returns the catalog of a table."""
    catalog: Any = table.catalog
    return CatalogLake(catalog)


def check_table(table: TableHandle, *, deep: bool) -> Checks:
    """See :meth:`nimblepy.table.table.Table.check`."""
    return check_all(subject_of(table), lake_of(table), deep=deep)


def describe(
    table: TableHandle,
    alter: Alter,
    stated: Mapping[str, Any],
    columns: Mapping[str, Any],
    allow_contradicted: bool,
) -> Description:
    """See :meth:`nimblepy.table.table.Table.describe`.

    Args:
        stated: the claims about the table by kind; ``None`` removes the kind.
    """
    subject = _newest(table, alter.base)
    new, replaced = _table_claims(subject, stated)
    for name, given in columns.items():
        column_claims, kinds = _column_claims(subject, name, given)
        new += column_claims
        replaced |= kinds
    return _store(table, alter, subject, new, replaced, allow_contradicted)


def describe_claims(
    table: TableHandle, alter: Alter, claims: Sequence[Claim], allow_contradicted: bool
) -> Description:
    """Stores the claims of a document.

    Each claim replaces the claims of the same kind and column.

    Raises:
        InvalidArgumentError: see :meth:`nimblepy.table.table.Table.describe`.
    """
    subject = _newest(table, alter.base)
    new = []
    for claim in claims:
        number = None if claim.column is None else _number(subject, claim.column)
        value = claim.value
        if claim.kind == "values" and isinstance(value, dict):
            value = [[json_value(code), meaning] for code, meaning in value.items()]
        elif claim.kind == "unique":
            value = _unique(subject, value)
        elif claim.kind == "rule":
            _rules(subject, [value])
        new.append(Stored(kind=claim.kind, number=number, value=value))
    replaced = {(claim.kind, claim.number) for claim in new}
    return _store(table, alter, subject, new, replaced, allow_contradicted)


def confirm(table: TableHandle, alter: Alter, kind: str, column: str | None) -> Description:
    """See :meth:`nimblepy.table.table.Table.confirm`."""
    subject = _newest(table, alter.base)
    number = None if column is None else _number(subject, column)
    same = [c for c in read_claims(alter.base) if (c.kind, c.number) == (kind, number)]
    if not same:
        what = "the table" if column is None else f"column {column!r}"
        raise InvalidArgumentError(f"{subject.name}: there is no claim {kind!r} about {what}")
    return _store(table, alter, subject, same, {(kind, number)}, allow_contradicted=True)


def _newest(table: TableHandle, metadata: ice.Metadata) -> Subject:
    rows = TableState(table).rows(metadata)
    return Subject(rows, metadata, metadata.head(), metadata.schema_id)


_Kinds = set[tuple[str, int | None]]


def _store(
    table: TableHandle,
    alter: Alter,
    subject: Subject,
    new: Sequence[Stored],
    replaced: _Kinds,
    allow_contradicted: bool,
) -> Description:
    """Checks new claims, and commits them in the place of old ones."""
    lake = lake_of(table)
    stamped = [_stamped(claim, subject, lake) for claim in new]
    before = read_claims(alter.base)
    kept = [c for c in before if (c.kind, c.number) not in replaced and _is_there(c, replaced)]
    check_sizes(subject.name, [*kept, *stamped])
    unstamped = [replace(claim, seen=None) for claim in stamped]  # nothing has changed yet
    checks = check_all(subject, lake, unstamped)
    if checks.contradicted and not allow_contradicted:
        shown = "; ".join(f"{c.claim}; observed: {c.observed}" for c in checks.contradicted)
        raise InvalidArgumentError(
            f"{subject.name}: contradicted by the rows: {shown}; "
            "allow_contradicted=True stores it anyway"
        )
    numbers = {number for _, number in replaced}
    texts = {
        property_of(n): property_text(c for c in [*kept, *stamped] if c.number == n)
        for n in sorted(numbers, key=lambda n: -1 if n is None else n)
    }
    with alter:
        for kind, number in replaced:
            if kind not in ("description", "*"):
                continue
            text = next(
                (c.value for c in stamped if (c.kind, c.number) == ("description", number)), None
            )
            if number is None:
                if text != alter.base.comment:
                    alter.set_comment(text)
            else:
                alter.set_doc(_path(subject, number), text)
        alter.store_claims({n: text for n, text in texts.items() if text != _now(alter, n)})
    _log.info("%s: described: %d claims", subject.name, len(stamped))
    claims = tuple(public_claim(claim, subject.metadata) for claim in stamped)
    return Description(snapshot=subject.snapshot, claims=claims, checks=checks)


def _now(alter: Alter, name: str) -> str | None:
    return alter.base.properties.get(name)


def _is_there(claim: Stored, replaced: _Kinds) -> bool:
    """Returns whether a claim is kept while other claims of its column are replaced."""
    return ("*", claim.number) not in replaced


def _path(subject: Subject, number: int) -> str:
    return str(subject.column_name(number))


def _stamped(claim: Stored, subject: Subject, lake: Lake) -> Stored:
    seen = None
    if claim.kind in FINGERPRINTED and subject.snapshot is not None:
        if claim.kind == "unique":
            numbers = list(claim.value)
        elif claim.number is not None:
            numbers = [claim.number]
        else:
            numbers = list(subject.facts.ids.values())
        seen = fingerprint(subject, numbers)
        names = names_in(claim.value, subject, lake) if claim.kind == "description" else []
        seen |= {"names": names} if names else {}
    return replace(claim, at=subject.snapshot, by=ice.who(), seen=seen)


# ---------------------------------------------------------------------- what is given


def _table_claims(subject: Subject, stated: Mapping[str, Any]) -> tuple[list[Stored], _Kinds]:
    claims = []
    for kind, value in stated.items():
        if value is not None:
            stored = _TABLE_KINDS[kind](subject, value)
            several = stored if kind in ("rule", "reconcile") else [stored]
            claims += [Stored(kind=kind, number=None, value=item) for item in several]
    return claims, {(kind, None) for kind in stated}


def _text(subject: Subject, value: Any) -> str:
    text = text_of(value, "describe: description")
    if not text.strip():
        raise InvalidArgumentError("describe: the description is empty; None removes it")
    return text


def _unique(subject: Subject, value: Any) -> list[int]:
    names = texts_of(value, "unique")
    if not names:
        raise InvalidArgumentError("unique: expected at least one column; None removes the claim")
    return [_number(subject, name) for name in names]


def _rows(subject: Subject, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidArgumentError(f"rows: expected a number of rows, got {value!r}")
    return value


def _deprecated(subject: Subject, value: Any) -> str | bool:
    return value if isinstance(value, bool) else text_of(value, "deprecated_by")


def _rules(subject: Subject, value: Any) -> list[str]:
    conditions = texts_of(value, "rules")
    for condition in conditions:
        subject.check_condition(condition)
    return conditions


def _reconcile(subject: Subject, value: Any) -> list[Any]:
    given = [value] if isinstance(value, Reconcile) else value
    if not all(isinstance(item, Reconcile) for item in given):
        raise InvalidArgumentError(f"reconcile: expected nb.Reconcile, got {value!r}")
    return [item.stored() for item in given]


_TABLE_KINDS: dict[str, Callable[[Subject, Any], Any]] = {
    "description": _text,
    "synonyms": lambda _, value: texts_of(value, "synonyms"),
    "unique": _unique,
    "fresh": lambda _, value: age_text(value),
    "rows": _rows,
    "deprecated": _deprecated,
    "rule": _rules,
    "reconcile": _reconcile,
}


def _column_claims(subject: Subject, name: str, given: Any) -> tuple[list[Stored], _Kinds]:
    number = _number(subject, name)
    items = given if isinstance(given, (list, tuple)) else [given]
    claims: list[Stored] = []
    kinds: _Kinds = set()
    for item in items:
        if item is None:
            kinds.add(("*", number))
            continue
        if isinstance(item, str):
            kind, value = "description", _text(subject, item)
        elif isinstance(item, COLUMN_CLAIMS):
            kind, value = item.kind, item.stored()
            if kind not in ("not_null", "description"):
                _check_column(subject, name, number, item)
        else:
            raise InvalidArgumentError(
                f"columns: {name}: expected text or a claim such as nb.Values, got {show(item)}"
            )
        claims.append(Stored(kind=kind, number=number, value=value))
        kinds.add((kind, number))
    return claims, kinds


def _check_column(subject: Subject, name: str, number: int, claim: Any) -> None:
    """Refuses claims about values that the column cannot have."""
    if number not in subject.facts.ids.values():
        raise InvalidArgumentError(
            f"columns: {name}: {claim.kind} needs a column of single values, not of lists, structs "
            "or maps"
        )
    if isinstance(claim, (Range, Unit)):
        stored = claim.stored()
        for end in stored if isinstance(claim, Range) else stored.get("range", ()):
            try:
                typed(end, subject.column(number).type)
            except (TypeError, ValueError, NotImplementedError) as error:
                raise InvalidArgumentError(f"columns: {name}: {end!r}: {error}") from None


def _number(subject: Subject, name: str) -> int:
    schema = subject.metadata.schema()
    return field_id_at(schema, resolve_column(schema, name).path)
