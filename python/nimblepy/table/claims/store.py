"""Stores claims: texts as documentation, other claims as one property per column.

The property of a column is ``nimblepy.claims.FIELD_ID``; that of the table is
``nimblepy.claims.table``. Both are JSON: ``{"claims": [...], "seen": {...}}``. So a claim is part
of a version of the metadata, remains valid if a column is renamed, and every Iceberg client can
read it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nimblepy.errors import InvalidArgumentError
from nimblepy.table import iceberg as ice
from nimblepy.table.base.damage import BAD_BYTES
from nimblepy.table.base.model import CLAIMS_PREFIX, COMMENT
from nimblepy.table.claims.kinds import Claim

# Maximum size of a claim, and of all claims of a table, in bytes of UTF-8.
MOST_CLAIM_BYTES = 4 << 10
MOST_TABLE_BYTES = 64 << 10
TABLE = f"{CLAIMS_PREFIX}table"
# Kinds whose claims may become suspect. A fingerprint of the rows is stored with them.
FINGERPRINTED = frozenset(
    {"description", "values", "references", "unit", "samples", "snapshot_of", "unique"}
)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The stored form of a claim.

    Attributes:
        number: field id of the column; ``None`` if the claim is about the table.
        value: the content as JSON, with field ids for columns.
        seen: fingerprint of the rows when the claim was made.
        others: entries that newer versions of nimblepy added.
    """

    kind: str
    number: int | None
    value: Any
    at: int | None = None
    by: str | None = None
    seen: Mapping[str, Any] | None = field(default=None, repr=False)
    others: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """The size of the value in bytes."""
        return len(_json(self.value).encode())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text_hash(text: str) -> int:
    return zlib.crc32(text.encode())


def property_of(number: int | None) -> str:
    """Returns the name of the property with the claims of a column, or of the table."""
    return TABLE if number is None else f"{CLAIMS_PREFIX}{number}"


def read_claims(metadata: ice.Metadata) -> list[Stored]:
    """Returns the claims of a table and of its current columns, in the order of the columns."""
    properties, docs = metadata.properties, metadata.docs()
    claims = _claims(properties.get(TABLE), None, properties.get(COMMENT))
    for number in metadata.ice_schema(None).field_ids:
        claims += _claims(properties.get(property_of(number)), number, docs.get(number))
    return claims


def _claims(text: str | None, number: int | None, doc: str | None) -> list[Stored]:
    try:
        content = json.loads(text or "{}")
        entries, seen = list(content.get("claims", ())), dict(content.get("seen", {}))
        claims = [_claim(entry, number, seen) for entry in entries]
    except BAD_BYTES:
        claims = []  # another tool has changed the property
    described = next((claim for claim in claims if claim.kind == "description"), None)
    rest = [claim for claim in claims if claim is not described]
    if not doc:
        return rest
    if described is None or described.value != _text_hash(doc):
        described = Stored(kind="description", number=number, value=doc)
    else:
        described = Stored(**{**vars(described), "value": doc})
    return [described, *rest]


def _claim(entry: Mapping[str, Any], number: int | None, seen: Mapping[str, Any]) -> Stored:
    at, kind = entry.get("at"), str(entry["kind"])
    return Stored(
        kind=kind,
        number=number,
        value=entry.get("value"),
        at=None if at is None else int(at),
        by=entry.get("by"),
        seen=seen.get(str(at)) if kind in FINGERPRINTED else None,
        others={k: v for k, v in entry.items() if k not in ("kind", "value", "at", "by")},
    )


def property_text(claims: Iterable[Stored]) -> str | None:
    """Returns the property with the claims of one column; ``None`` without claims."""
    entries: list[dict[str, Any]] = []
    seen: dict[str, Any] = {}
    for claim in claims:
        if claim.kind == "description" and claim.at is None and claim.by is None:
            continue  # the documentation already contains the claim
        is_text = claim.kind == "description"
        value = _text_hash(claim.value) if is_text else claim.value
        entry = {"kind": claim.kind, "value": value, **claim.others}
        if claim.at is not None:
            entry["at"] = str(claim.at)  # text, because many languages read JSON numbers as 53 bits
        if claim.by is not None:
            entry["by"] = claim.by
        if claim.seen:
            _add_seen(seen, str(claim.at), claim.seen)
        entries.append(entry)
    if not entries:
        return None
    return _json({"claims": entries, "seen": seen} if seen else {"claims": entries})


def _add_seen(seen: dict[str, Any], at: str, fingerprint: Mapping[str, Any]) -> None:
    """Adds a fingerprint to ``seen``. Claims that were made at the same snapshot share it."""
    stored = seen.setdefault(at, dict(fingerprint))
    stored["columns"] = {**stored.get("columns", {}), **fingerprint.get("columns", {})}
    names = {*stored.get("names", ()), *fingerprint.get("names", ())}
    if names:
        stored["names"] = sorted(names)


def check_sizes(table: str, claims: Sequence[Stored]) -> None:
    """Rejects claims that are too long.

    Raises:
        InvalidArgumentError: a claim, or all claims together, exceed the limit.
    """
    for claim in claims:
        if claim.size > MOST_CLAIM_BYTES:
            raise InvalidArgumentError(
                f"{table}: a claim of kind {claim.kind!r} has {claim.size:,} bytes; at most "
                f"{MOST_CLAIM_BYTES:,} are allowed"
            )
    by_property: dict[int | None, list[Stored]] = {}
    for claim in claims:
        by_property.setdefault(claim.number, []).append(claim)
    texts = [property_text(part) or "" for part in by_property.values()]
    texts += [claim.value for claim in claims if claim.kind == "description"]
    total = sum(len(text.encode()) for text in texts)
    if total > MOST_TABLE_BYTES:
        raise InvalidArgumentError(
            f"{table}: the claims of this table have {total:,} bytes; at most "
            f"{MOST_TABLE_BYTES:,} are allowed"
        )


def public_claim(stored: Stored, metadata: ice.Metadata, schema_id: int | None = None) -> Claim:
    """Converts a stored claim to a public one, with names instead of field ids."""
    column = None
    if stored.number is not None:
        column = metadata.column_name(stored.number, schema_id) or f"field {stored.number}"
    value = stored.value
    if stored.kind == "unique" and isinstance(value, list):
        value = [metadata.column_name(n, schema_id) or f"field {n}" for n in value]
    elif stored.kind == "values" and isinstance(value, list):
        value = dict(value)
    return Claim(kind=stored.kind, column=column, value=value, at=stored.at, by=stored.by)
