"""Answers of the tools: plain values of limited size, and a cursor for reading the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nimblepy.errors import InvalidArgumentError
from nimblepy.mcp.budget import (
    Cursor,
    Cuts,
    checked_tokens,
    cut_note,
    fitted,
    read_cursor,
    shrunk,
    tokens,
)
from nimblepy.mcp.joins import join_answer
from nimblepy.mcp.lake import SharedLake
from nimblepy.mcp.sql import checked_query
from nimblepy.mcp.workers import QueryError, Workers, checked_limit
from nimblepy.table.claims.checks import Check
from nimblepy.table.claims.kinds import Claim
from nimblepy.table.table import Table

_TOKENS = 1_500
_MOST_ROWS, _MOST_SAMPLE, _MOST_KEYS, _MOST_MS = 1_000, 50, 100, 60_000
# Time limits in milliseconds: reading rows for a tool other than query, and deep checks.
_READ_MS, _DEEP_MS = 15_000, 60_000
# Maximum number of contradicted claims per table in the answer of a query.
_MOST_NAMED = 10


class Answers:
    """Computes the answers of the tools. Thread-safe."""

    def __init__(self, lake: SharedLake) -> None:
        self.lake = lake
        self.workers = Workers(lake.target)

    # ------------------------------------------------------------------ catalog

    def find_tables(
        self, text: str, k: int = 5, max_tokens: int = _TOKENS, cursor: str | None = None
    ) -> dict[str, Any]:
        checked_limit("k", k, 100)
        start = read_cursor(cursor).offset
        found = self.lake.catalog.find(text, limit=1 << 30)
        hidden = self.lake.hidden()
        names = [name for name in found["table"].to_pylist() if name not in hidden]
        why = dict(zip(found["table"].to_pylist(), found["why"].to_pylist(), strict=True))
        items = []
        for name in names[start : start + k]:
            item = {**self._head(self.lake.table(name)), "why": why[name]}
            if any(other in why[name] for other in hidden):
                del item["why"]
            items.append(item)
        head = {"found": len(names), "of": len(self.lake.tables())}
        others = names[start + 1 : start + 21]
        shown = fitted(items, [head, others], checked_tokens(max_tokens))
        answer = {**head, "tables": shown}
        following = start + len(shown)
        if following < len(names):
            answer["more"] = names[following : following + 20]
            answer["cursor"] = str(Cursor(following))
        return answer

    def describe(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        max_tokens: int = _TOKENS,
        cursor: str | None = None,
    ) -> dict[str, Any]:
        checked_tokens(max_tokens)
        place = read_cursor(cursor)
        handle = self.lake.at(table, *(place.snapshots or (None,)))
        checks = self.lake.checks(handle)
        by_column: dict[str | None, list[Check]] = {}
        for check in checks:
            by_column.setdefault(check.claim.column, []).append(check)
        names = self._columns(handle, columns, by_column)
        head: dict[str, Any] = self._head(handle, checks)
        if place.offset == 0:
            head["primary_key"] = handle.primary_key
            head["claims"] = _shown_claims(by_column.get(None, ()))
        head = shrunk(head, max_tokens // 2) or {
            "table": handle.name,
            "cut": "the claims about the table do not fit; check lists them",
        }
        described = [(name, self._column(handle, name, by_column.get(name, ()))) for name in names]
        left = described[place.offset :]
        # List the names of columns that do not fit, so that an agent knows that they exist.
        names_left = [name for name, _ in left]
        listed = tokens(names_left) <= max_tokens // 2
        costs = [tokens(name) + 1 for name in names_left] if listed else None
        shown = fitted([{name: item} for name, item in left], head, max_tokens, costs)
        count = len(shown)
        answer = {**head, "columns": {name: item for one in shown for name, item in one.items()}}
        if count < len(left):
            following = Cursor(place.offset + count, _ids(handle.snapshot))
            answer["not_shown"] = {"columns": len(left) - count, "cursor": str(following)}
            if listed:
                answer["not_shown"]["names"] = names_left[count:]
        return answer

    def _columns(
        self,
        handle: Table,
        asked: Sequence[str] | None,
        by_column: Mapping[str | None, Sequence[Check]],
    ) -> list[str]:
        names = list(dict.fromkeys([*handle.schema.names, *handle.facts().columns]))
        if asked is not None:
            unknown = [name for name in asked if name not in names]
            if unknown:
                raise InvalidArgumentError(
                    f"{handle.name} has no column {unknown[0][:100]!r}; it has "
                    f"{', '.join(names[:100])}"
                )
            return list(dict.fromkeys(asked))
        key = set(handle.primary_key)
        return sorted(names, key=lambda n: (n not in key, not by_column.get(n)))

    def _column(self, handle: Table, name: str, checks: Sequence[Check]) -> dict[str, Any]:
        plain = Cuts().plain
        facts = handle.facts().columns.get(name)
        if facts is None:
            item: dict[str, Any] = {"type": str(handle.schema.field(name).type)}
        else:
            item = {"type": str(facts.type)}
            if facts.nulls:
                item["nulls"] = facts.nulls
            if facts.distinct is not None:
                about = f"about {facts.distinct}"
                item["distinct"] = facts.distinct if facts.distinct_exact else about
            if facts.lower is not None and facts.bounds_exact:
                item["min"], item["max"] = plain(facts.lower), plain(facts.upper)
            elif facts.lower is not None:
                item["within"] = [plain(facts.lower), plain(facts.upper)]
        return item | _shown_claims(checks)

    def join_path(self, a: str, b: str) -> dict[str, Any]:
        self.lake.table(a)
        self.lake.table(b)
        return join_answer(self.lake, a, b)

    def check(
        self,
        table: str,
        deep: bool = False,
        max_tokens: int = _TOKENS,
        cursor: str | None = None,
    ) -> dict[str, Any]:
        checked_tokens(max_tokens)
        place = read_cursor(cursor)
        handle = self.lake.at(table, *(place.snapshots or (None,)))
        checks = self._deep_checks(handle) if deep else self.lake.checks(handle)
        order = ("contradicted", "overdue", "suspect", "unchecked", "verified", "unverifiable")
        checks.sort(key=lambda check: order.index(check.status))
        counts = Counter(str(check.status) for check in checks)
        head = {"table": table, "snapshot": _text(handle.snapshot), "counts": dict(counts)}
        items = [_shown_check(check) for check in checks[place.offset :]]
        return self._page(head, "claims", items, max_tokens, place.offset, handle.snapshot)

    def _deep_checks(self, handle: Table) -> list[Check]:
        job = {"tool": "check", "deep": True, "milliseconds": _DEEP_MS, **_place(handle)}
        return self.lake.shown(
            Check(
                Claim(kind=one["kind"], column=one["column"], value=one["claimed"]),
                *(one["status"], handle.snapshot, (one["observed"], one["value"]), one["reason"]),
            )
            for one in self.workers.run(job)["checks"]
        )

    # ------------------------------------------------------------------ rows

    def sample(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        n: int = 5,
        filter: str | None = None,
        max_tokens: int = _TOKENS,
    ) -> dict[str, Any]:
        checked_limit("n", n, _MOST_SAMPLE)
        checked_tokens(max_tokens)
        handle = self.lake.table(table)
        head: dict[str, Any] = self._rows_head(handle)
        read = self._read("sample", handle, columns=columns, n=n, filter=filter)
        if filter is not None:
            head["matching"] = read["matching"]
            if not read["complete"]:
                head["matching"] = f"at least {read['matching']}"
        items = read["rows"]
        rows = fitted(items, head, max_tokens)
        answer = {**head, "shown": len(rows), "rows": rows, **_cuts(read)}
        if len(rows) < len(items):
            answer["cut"] = f"{len(items) - len(rows)} rows do not fit; ask for fewer columns"
        return answer

    def _read(self, tool: str, handle: Table, **arguments: Any) -> dict[str, Any]:
        """Reads rows of a table in a worker."""
        job = {"tool": tool, "milliseconds": _READ_MS, **_place(handle), **arguments}
        return self.workers.run(job)

    def get(
        self,
        table: str,
        keys: Sequence[Any],
        columns: Sequence[str] | None = None,
        max_tokens: int = _TOKENS,
        cursor: str | None = None,
    ) -> dict[str, Any]:
        checked_tokens(max_tokens)
        if len(keys) > _MOST_KEYS:
            raise InvalidArgumentError(f"keys: expected at most {_MOST_KEYS}, got {len(keys)}")
        place = read_cursor(cursor)
        handle = self.lake.at(table, *(place.snapshots or (None,)))
        read = self._read("get", handle, keys=list(keys), columns=columns)
        rows = read["rows"]
        head = {**self._rows_head(handle), "asked": len(keys), "found": len(rows)}
        answer = self._page(
            head, "rows", rows[place.offset :], max_tokens, place.offset, handle.snapshot
        )
        return answer | _cuts(read)

    def changes(
        self,
        table: str,
        since: int | str | None = None,
        max_rows: int = 20,
        max_tokens: int = _TOKENS,
        cursor: str | None = None,
    ) -> dict[str, Any]:
        checked_limit("max_rows", max_rows, _MOST_ROWS)
        place = read_cursor(cursor)
        handle = self.lake.at(table, *(place.snapshots or (None,)))
        if isinstance(since, str) and since.isdecimal():
            since = int(since)
        offset = place.offset
        read = self._read("changes", handle, since=since, rows=max_rows, offset=offset)
        total, complete = sum(read["counts"].values()), read["complete"]
        if not complete and total <= offset:
            raise QueryError(
                f"changes: only {total:,} rows can be read in one call, and the cursor is at "
                f"{offset:,}; ask for the changes since a later snapshot"
            )
        head = {
            "table": table,
            "since": None if since is None else str(since),
            "until": _text(handle.snapshot),
            "counts": read["counts"],
        }
        if not complete:
            head["counts_are"] = "of the first rows; there may be more"
        rows = fitted(read["rows"], head, checked_tokens(max_tokens))
        answer = {**head, "shown": len(rows), "rows": rows, **_cuts(read)}
        left = total - offset - len(rows)
        if left > 0 or not complete:
            answer["more_rows"] = left if complete else f"at least {left}"
            answer["cursor"] = str(Cursor(offset + len(rows), _ids(handle.snapshot)))
        return answer

    def query(
        self,
        sql: str,
        max_rows: int = 50,
        max_ms: int = 5000,
        max_tokens: int = 4000,
        cursor: str | None = None,
    ) -> dict[str, Any]:
        checked_limit("max_rows", max_rows, _MOST_ROWS)
        checked_limit("max_ms", max_ms, _MOST_MS)
        checked_tokens(max_tokens)
        query = checked_query(sql, self.lake.tables())
        place = read_cursor(cursor)
        if place.snapshots and len(place.snapshots) != len(query.tables):
            raise InvalidArgumentError("cursor: it belongs to another query")
        pinned = place.snapshots or (None,) * len(query.tables)
        answer = self.workers.run(
            {
                "tool": "query",
                "sql": query.sql,
                "tables": {
                    name: str(number) if number else None
                    for name, number in zip(query.tables, pinned, strict=True)
                },
                "offset": place.offset,
                "rows": max_rows,
                "milliseconds": max_ms,
            }
        )
        notes = {name: self._note(name, answer["snapshots"][name]) for name in query.tables}
        head = {"columns": answer["columns"], "types": answer["types"], "tables": notes}
        snapshots = tuple(int(answer["snapshots"][name] or 0) for name in query.tables)
        longest_cursor = str(Cursor(place.offset + max_rows, snapshots))
        rows = fitted(answer["rows"], [head, longest_cursor], max_tokens)
        result = {"columns": answer["columns"], "types": answer["types"], "rows": rows}
        result |= {"tables": notes, **_cuts(answer)}
        if answer["more"] or len(rows) < len(answer["rows"]):
            whole = len(rows) == len(answer["rows"])
            limit = f"max_rows {max_rows}" if whole else f"max_tokens {max_tokens}"
            result["cut"] = f"more rows than {limit} allows; aggregate, or go on with the cursor"
            result["cursor"] = str(Cursor(place.offset + len(rows), snapshots))
        return result

    # ------------------------------------------------------------------ parts

    def _head(self, handle: Table, checks: Sequence[Check] | None = None) -> dict[str, Any]:
        """Returns the facts that an agent must know before it uses a table."""
        facts = handle.facts()
        head: dict[str, Any] = {
            "table": handle.name,
            "rows": facts.rows,
            "snapshot": _text(facts.snapshot),
        }
        if facts.last_changed is not None:
            head["data_as_of"] = facts.last_changed.isoformat(timespec="seconds")
        for check in self.lake.checks(handle) if checks is None else checks:
            claim = check.claim
            if claim.column is None and claim.kind in ("description", "deprecated", "fresh"):
                head["about" if claim.kind == "description" else claim.kind] = _shown(check)
        return head

    def _note(self, name: str, snapshot: str | None) -> dict[str, Any]:
        """Returns the facts about a table that the answer of a query includes."""
        handle = self.lake.table(name)
        note: dict[str, Any] = {"snapshot": snapshot}
        changed = handle.facts().last_changed
        if changed is not None:
            note["data_as_of"] = changed.isoformat(timespec="seconds")
        refuted = []
        for check in self.lake.checks(handle):
            claim = check.claim
            if check.status == "overdue":
                note["overdue"] = check.observed
            elif claim.kind == "deprecated" and isinstance(claim.value, str):
                note["deprecated_by"] = claim.value
            elif check.status == "contradicted":
                refuted.append(f"{claim.column or 'table'}: {claim.kind}")
        if len(refuted) > _MOST_NAMED:
            refuted[_MOST_NAMED:] = [f"and {len(refuted) - _MOST_NAMED} more"]
        return note | ({"contradicted": refuted} if refuted else {})

    def _rows_head(self, handle: Table) -> dict[str, Any]:
        return {
            "table": handle.name,
            "snapshot": _text(handle.snapshot),
            "rows_of_table": handle.num_rows,
        }

    def _page(
        self,
        head: dict[str, Any],
        name: str,
        items: Sequence[Any],
        max_tokens: int,
        offset: int,
        snapshot: int | None,
    ) -> dict[str, Any]:
        shown = fitted(items, head, max_tokens)
        answer = {**head, name: shown}
        if len(shown) < len(items):
            answer["more"] = len(items) - len(shown)
            answer["cursor"] = str(Cursor(offset + len(shown), _ids(snapshot)))
        return answer


def _place(handle: Table) -> dict[str, Any]:
    """Returns the table and the snapshot of a job."""
    return {"table": handle.name, "snapshot": _text(handle.snapshot)}


def _cuts(read: Mapping[str, Any]) -> dict[str, str]:
    return cut_note(read["cut_texts"], read["cut_lists"])


def _text(snapshot: int | None) -> str | None:
    """Returns a snapshot id as text, because many languages read JSON numbers as 53 bits."""
    return None if snapshot is None else str(snapshot)


def _ids(snapshot: int | None) -> tuple[int, ...]:
    return () if snapshot is None else (snapshot,)


def _shown(check: Check) -> list[Any]:
    """Returns a claim's value and status. If it does not hold, also what was observed."""
    plain = Cuts().plain
    value = check.claim.value
    if check.claim.kind == "references" and isinstance(value, dict):
        value = {key: item for key, item in value.items() if item is not None}
    shown = [plain(value), check.status]
    if check.status not in ("verified", "unverifiable") and (check.observed or check.reason):
        shown.append(plain(check.observed or check.reason))
    return shown


def _shown_claims(checks: Sequence[Check]) -> dict[str, Any]:
    """Returns claims by kind, except the claims that are in the head of the answer."""
    shown: dict[str, Any] = {}
    for check in checks:
        claim = check.claim
        if claim.column is None and claim.kind in ("description", "deprecated", "fresh"):
            continue
        kind = "about" if claim.kind == "description" else claim.kind
        if kind in ("rule", "reconcile"):
            shown.setdefault(kind, []).append(_shown(check))
        else:
            shown[kind] = _shown(check)
    return shown


def _shown_check(check: Check) -> dict[str, Any]:
    plain = Cuts().plain
    claim = check.claim
    item: dict[str, Any] = {"kind": claim.kind}
    if claim.column is not None:
        item["column"] = claim.column
    item |= {"claimed": plain(claim.value), "status": check.status}
    if check.observed is not None:
        item["observed"] = plain(check.observed)
    if check.reason is not None and check.status != "verified":
        item["reason"] = plain(check.reason)
    return item
