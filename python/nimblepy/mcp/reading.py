"""Reads rows for the tools. Runs in a worker process, whose time and memory are limited.

Results have only JSON types.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.mcp.budget import Cuts
from nimblepy.table.table import Table

# Limits of one read, in rows and seconds. A result tells whether it reached a limit.
MOST_READ, READ_SECONDS = 100_000, 5.0
_SEED = 7


def sample(table: Table, job: Mapping[str, Any]) -> dict[str, Any]:
    """Returns random rows, or the first rows that pass a filter."""
    columns, most, filter = job["columns"], job["n"], job["filter"]
    if filter is None:
        return _plain(table.sample(n=most, seed=_SEED, columns=columns).to_pylist())
    until = time.monotonic() + READ_SECONDS
    rows: list[dict[str, Any]] = []
    read, complete = 0, True
    with contextlib.closing(table.scan(columns, filter=filter).to_reader()) as reader:
        for batch in reader:
            rows += batch.slice(0, max(most - len(rows), 0)).to_pylist()
            read += batch.num_rows
            if read >= MOST_READ or time.monotonic() > until:
                complete = False
                break
    return _plain(rows) | {"matching": read, "complete": complete}


def get(table: Table, job: Mapping[str, Any]) -> dict[str, Any]:
    """Looks up rows by primary key."""
    types = {name: table.schema.field(name).type for name in table.primary_key}
    keys = [_key(key, types) for key in job["keys"]]
    return _plain(table.lookup(keys, columns=job["columns"]).to_pylist())


def _key(key: Any, types: Mapping[str, pa.DataType]) -> Any:
    """Converts a key from JSON to a key of the table. Decimals are text, as in answers."""
    if isinstance(key, dict):
        return {name: _key_part(part, types.get(name)) for name, part in key.items()}
    if isinstance(key, list):
        return tuple(map(_key_part, key, [*types.values(), *[None] * len(key)]))
    return _key_part(key, next(iter(types.values()), None))


def _key_part(part: Any, data_type: pa.DataType | None) -> Any:
    if not isinstance(part, str) or data_type is None or not pt.is_decimal(data_type):
        return part
    try:
        return Decimal(part)
    except ArithmeticError:
        raise InvalidArgumentError(f"keys: {part!r} is not a decimal number") from None


def changes(table: Table, job: Mapping[str, Any]) -> dict[str, Any]:
    """Returns changed rows from position ``offset`` on, and the number of changed rows read."""
    offset, most = job["offset"], job["rows"]
    until = time.monotonic() + READ_SECONDS
    counts: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    complete = True
    with contextlib.closing(table.changes(job["since"])) as reader:
        for batch in reader:
            begin = offset + len(rows) - counts.total()
            counts.update(batch.column("_change").to_pylist())
            if len(rows) < most and begin < batch.num_rows:
                rows += batch.slice(max(begin, 0), most - len(rows)).to_pylist()
            if counts.total() >= offset + MOST_READ or time.monotonic() > until:
                complete = False
                break
    for row in rows:
        row["_snapshot"] = str(row["_snapshot"])
    return _plain(rows) | {"counts": dict(counts), "complete": complete}


def check(table: Table, job: Mapping[str, Any]) -> dict[str, Any]:
    """Checks all claims. May scan the table."""
    plain = Cuts().plain
    checks = [check.to_dict() for check in table.check(deep=job["deep"])]
    return {"checks": [{name: plain(item) for name, item in one.items()} for one in checks]}


def _plain(rows: list[dict[str, Any]]) -> dict[str, Any]:
    cuts = Cuts()
    return {
        "rows": [cuts.row(row) for row in rows],
        "cut_texts": cuts.texts,
        "cut_lists": cuts.lists,
    }


READERS: Mapping[str, Callable[[Table, Mapping[str, Any]], dict[str, Any]]] = {
    "sample": sample,
    "get": get,
    "changes": changes,
    "check": check,
}
