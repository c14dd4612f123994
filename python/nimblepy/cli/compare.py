"""The command ``diff``: compares the rows of two files, directories or tables by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import typer

from nimblepy.cli.arguments import OutputFormat, Version
from nimblepy.cli.output import TABLE_ROWS, print_rows, split_names
from nimblepy.cli.sources import open_rows
from nimblepy.errors import InvalidArgumentError
from nimblepy.join.joinable import Joinable
from nimblepy.rows.gather import gather_array
from nimblepy.schema.kinds import family
from nimblepy.schema.names import output_name

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Counts: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
_ROWS = 1 << 16


def run_diff(
    old: str,
    new: str,
    on: str | None,
    columns: str | None,
    limit: int | None,
    output: OutputFormat,
    version: Version,
) -> bool:
    """Prints the rows that differ and their number. Returns whether there are any.

    Cost: scans both sources, and looks up the keys of each in the other.
    """
    with open_rows(old, version) as before, open_rows(new) as after:
        keys = _key(before, on)
        names = _shared(before, after, None if columns is None else split_names(columns), keys)
        comparison = _Comparison(before, after, keys, names)
        most = TABLE_ROWS if limit is None and output == "table" else limit
        shown = _first(comparison.changes(), most)
        if output == "table":
            batches = list(shown)  # after the loop, all rows are counted
            if batches:
                print_rows(batches, comparison.schema, output)
        else:
            print_rows(shown, comparison.schema, output)
        counts = comparison.counts
        total = counts["removed"] + counts["added"] + counts["before"]
        typer.echo(
            f"{counts['removed']:,} removed, {counts['added']:,} added, "
            f"{counts['before']:,} changed",
            err=output != "table",
        )
        return total > 0


def _key(rows: Joinable, on: str | None) -> list[str]:
    if on is not None:
        return split_names(on)
    if not rows.cluster_by:
        raise InvalidArgumentError(
            "diff: the first source has no cluster key; pass --on with a key"
        )
    return [output_name(key.column) for key in rows.cluster_by]


def _shared(
    before: Joinable, after: Joinable, columns: list[str] | None, keys: Sequence[str]
) -> list[str]:
    """Returns the columns to compare, key columns first.

    Prints the columns that only one source has.
    """
    was, now = before.schema, after.schema
    for name in [*keys, *(columns or ())]:
        if name not in was.names or name not in now.names:
            raise InvalidArgumentError(f"diff: column {name!r} must be in both sources")
    for name in dict.fromkeys([*was.names, *now.names]):
        if name not in now.names:
            typer.echo(f"column {name!r} was removed", err=True)
        elif name not in was.names:
            typer.echo(f"column {name!r} was added", err=True)
        elif was.field(name).type != now.field(name).type:
            types = f"{was.field(name).type}, is {now.field(name).type}"
            typer.echo(f"column {name!r} was {types}", err=True)
    rest = columns or [name for name in was.names if name in now.names]
    return [*keys, *(name for name in rest if name not in keys)]


class _Comparison:
    """Finds and counts the rows that differ between two sources."""

    def __init__(
        self, before: Joinable, after: Joinable, keys: Sequence[str], names: Sequence[str]
    ) -> None:
        self._before, self._after = before, after
        self._keys, self._names = list(keys), list(names)
        self.counts: Counter[str] = Counter()
        fields = [pa.field("change", pa.string())]
        for name in names:
            field = before.schema.field(name)
            same = field.type == after.schema.field(name).type
            fields.append(pa.field(name, field.type if same else pa.string()))
        self.schema = pa.schema(fields)

    def changes(self) -> Iterator[pa.RecordBatch]:
        """Yields removed and changed rows in the order of the first source, then new rows."""
        probe = "_" + max(self._names, key=len)
        for batch in self._before.scan(self._names, batch_rows=_ROWS):
            old = pa.Table.from_batches([batch])
            new = self._after.lookup(
                old.select(self._keys),
                on=self._keys,
                columns=self._names,
                probe_row=probe,
                null_equals=True,
            )
            at = new.column(0).to_numpy()
            self._refuse_twice(old, np.bincount(at, minlength=len(batch)))
            removed = np.setdiff1d(np.arange(len(batch)), at)
            yield from self._labelled("removed", _taken(old, removed))
            old, new = _taken(old, at), new.drop_columns([probe])
            differ = np.zeros(len(at), dtype=np.bool_)
            for name in self._names[len(self._keys) :]:
                differ |= _differ(old.column(name), new.column(name))
            rows = np.flatnonzero(differ)
            yield from self._pairs(_taken(old, rows), _taken(new, rows))
        for batch in self._after.scan(self._names, batch_rows=_ROWS):
            new = pa.Table.from_batches([batch])
            counts_before = self._before.count(
                new.select(self._keys), on=self._keys, null_equals=True
            )
            self._refuse_twice(new, counts_before.to_numpy())
            added = np.flatnonzero(counts_before.to_numpy() == 0)
            yield from self._labelled("added", _taken(new, added))

    def _refuse_twice(self, rows: pa.Table, counts: Counts) -> None:
        twice = np.flatnonzero(counts > 1)
        if len(twice):
            key = rows.select(self._keys).slice(int(twice[0]), 1).to_pylist()[0]
            raise InvalidArgumentError(
                f"diff: {key} is the key of {counts[twice[0]]} rows; pass --on with a unique key"
            )

    def _pairs(self, old: pa.Table, new: pa.Table) -> Iterator[pa.RecordBatch]:
        labelled = [*self._labelled("before", old), *self._labelled("after", new)]
        if labelled:
            turns = np.arange(2 * old.num_rows).reshape(2, -1).T.reshape(-1)
            yield from _taken(pa.Table.from_batches(labelled), turns).to_batches()

    def _labelled(self, label: str, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        if not rows.num_rows:
            return
        self.counts[label] += rows.num_rows
        columns = [pa.array([label] * rows.num_rows)]
        for field, column in zip(list(self.schema)[1:], rows.columns, strict=True):
            if column.type != field.type:
                texts = [None if value is None else str(value) for value in column.to_pylist()]
                column = pa.array(texts, pa.string())
            columns.append(column)
        yield from pa.Table.from_arrays(columns, schema=self.schema).combine_chunks().to_batches()


def _taken(rows: pa.Table, at: np.ndarray[Any, Any]) -> pa.Table:
    """Returns the rows at the given positions. Works for all types."""
    positions = pa.array(at)
    columns = [gather_array(column.combine_chunks(), positions) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _differ(old: pa.ChunkedArray, new: pa.ChunkedArray) -> Mask:
    """Returns the rows whose values differ; null and NaN equal themselves."""
    if old.equals(new):
        return np.zeros(len(old), dtype=np.bool_)
    if old.type == new.type and family(old.type) != "none":
        a, b = old.combine_chunks(), new.combine_chunks()
        same = pc.fill_null(pc.equal(a, b), False)
        if pt.is_floating(a.type):
            same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(a), pc.is_nan(b)), False))
        same = pc.or_(same, pc.and_(a.is_null(), b.is_null()))
        differ: Mask = pc.invert(same).to_numpy(zero_copy_only=False)
        return differ
    pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
    return np.array([a != b and repr(a) != repr(b) for a, b in pairs], dtype=np.bool_)


def _first(batches: Iterator[pa.RecordBatch], most: int | None) -> Iterator[pa.RecordBatch]:
    """Yields only the first rows, for printing, but reads all rows so that they are counted."""
    left = most
    for batch in batches:
        if left is None or left > 0:
            yield batch if left is None else batch.slice(0, min(left, batch.num_rows))
            left = None if left is None else max(left - batch.num_rows, 0)
