"""Functions that Spark tasks run to look up keys in files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from nimblepy.join.asof import AsofPlan
from nimblepy.join.joinable import SourceHandle
from nimblepy.join.plan import JoinPlan
from nimblepy.join.run import join_batches, joined_by_batch
from nimblepy.spark.base.inputs import SparkInput, open_cached
from nimblepy.spark.base.schemas import conform, conform_array
from nimblepy.spark.base.tasks import Batches

# Probe rows per lookup. In large lookups, each block of the file is decoded only once.
LOOKUP_ROWS = 65_536
# After this many matches, start a new array for the JVM. One probe row's matches stay together.
MOST_MATCHES = 262_144
# Name of the column with the number of the probe row.
_PROBE_ROW = "__nimble_probe_row"

Arrays = tuple[pa.Array, ...]


@dataclass(frozen=True)
class JoinSpec:
    """The description of a join that the driver sends to the workers.

    Attributes:
        probe: the probe columns that the join reads, as Spark sends them.
        plan: the plan, which the driver made and checked.
        target: Spark's Arrow types of the columns that the join adds.
        asof: finds the matches of an as-of join; ``None`` for other joins.
    """

    files: SparkInput
    probe: pa.Schema
    plan: JoinPlan
    target: pa.Schema
    asof: AsofPlan | None = None

    def plan_for(self, probe: pa.Schema, how: str | None = None) -> JoinPlan:
        """Returns the plan for batches with these probe columns."""
        how = how or self.plan.how
        output = () if how in ("semi", "anti") else self.plan.output
        added = list(self.plan.schema)[len(self.plan.schema) - len(output) :]
        return replace(self.plan, how=how, output=output, schema=pa.schema([*probe, *added]))


def lookup_arrays(spec: JoinSpec) -> Callable[[Iterable[Arrays]], Iterator[pa.Array]]:
    """Maps each batch of key columns to an array: for every key, the list of matching rows."""

    def run(batches: Iterable[Arrays]) -> Iterator[pa.Array]:
        for rows, joined in _numbered_join(spec, "inner", batches):
            yield from _lists(joined, _first(rows), rows.num_rows, spec.target)

    return run


def exists_arrays(spec: JoinSpec) -> Callable[[Iterable[Arrays]], Iterator[pa.Array]]:
    """Maps each batch of key columns to an array of booleans: whether the key has a match."""

    def run(batches: Iterable[Arrays]) -> Iterator[pa.Array]:
        for rows, joined in _numbered_join(spec, "semi", batches):
            has_match = np.zeros(rows.num_rows, dtype=np.bool_)
            for batch in joined:
                has_match[batch.column(_PROBE_ROW).to_numpy() - _first(rows)] = True
            yield pa.array(has_match)

    return run


def _numbered_join(
    spec: JoinSpec, how: str, batches: Iterable[Arrays]
) -> Iterator[tuple[pa.RecordBatch, Iterator[pa.RecordBatch]]]:
    """Joins the columns that Spark sends. Adds the number of the probe row to the result."""
    build = open_cached(spec.files)
    numbered = pa.schema([*spec.probe, pa.field(_PROBE_ROW, pa.int64())])
    plan = spec.plan_for(numbered, how)

    def probes() -> Iterator[pa.RecordBatch]:
        for rows in _gathered(batches, spec.probe):
            numbers = pa.array(np.arange(rows.num_rows, dtype=np.int64))
            yield pa.RecordBatch.from_arrays([*rows.columns, numbers], schema=numbered)

    # The join returns probe batches unchanged, or slices of them if they are large.
    find = None if spec.asof is None else spec.asof.find
    return joined_by_batch(plan, build, probes(), output_rows=MOST_MATCHES, find=find)


def joined_batches(
    spec: JoinSpec, schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Maps probe batches to joined batches with the types of ``schema``."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        build = open_cached(spec.files)
        for batch in batches:
            plan = spec.plan_for(batch.schema)
            for joined in join_batches(plan, build, [batch]):
                yield conform(joined, _in_zones_of(schema, batch.schema))

    return run


@dataclass(frozen=True)
class NearestSpec:
    """The description of a nearest-row search that the driver sends to the workers.

    Attributes:
        query: the position of the column with the query vectors.
        columns: the columns to read from the files.
        arguments: other arguments of :meth:`nimblepy.File.nearest`.
        target: Spark's Arrow types of the result.
    """

    files: SparkInput
    query: int
    k: int
    columns: tuple[str, ...]
    arguments: dict[str, Any]
    target: pa.Schema


def nearest_rows(spec: NearestSpec) -> Batches:
    """Maps rows with a query vector to their nearest rows."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = SourceHandle(open_cached(spec.files))
        step = max(1, MOST_MATCHES // spec.k)
        for batch in batches:
            asked = batch.filter(batch.column(spec.query).is_valid())
            for at in range(0, asked.num_rows, step):
                part = asked.slice(at, step)
                queries = part.column(spec.query)
                hits = rows.nearest(queries, spec.k, columns=spec.columns, **spec.arguments)
                probes = part.take(hits["_query"].combine_chunks())
                found = hits.drop_columns("_query").combine_chunks()
                for hit in found.to_batches():  # at most one batch
                    joined = [*probes.columns, *hit.columns]
                    yield conform(
                        pa.RecordBatch.from_arrays(joined, names=spec.target.names),
                        _in_zones_of(spec.target, batch.schema),
                    )

    return run


def joined_rows(
    spec: JoinSpec, schema: pa.Schema, probe_json: str, result_json: str
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Maps Spark rows to joined Spark rows, for ``RDD.mapPartitions``."""
    from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
    from pyspark.sql.types import StructType

    probe_type = StructType.fromJson(json.loads(probe_json))
    result_type = StructType.fromJson(json.loads(result_json))

    def batches(rows: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        for some in chunks(rows, LOOKUP_ROWS):
            table = LocalDataToArrowConversion.convert(some, probe_type, False)
            yield from table.combine_chunks().to_batches()

    def run(rows: Iterable[Any]) -> Iterator[Any]:
        for batch in joined_batches(spec, schema)(batches(rows)):
            yield from ArrowTableToRowsConversion.convert(
                pa.Table.from_batches([batch]), result_type
            )

    return run


def keyed_rows(
    files: SparkInput, key: Any, how: str, columns: tuple[str, ...] | None
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Maps rows of any RDD to pairs (row, match as a dict or ``None``)."""
    key_of = _key_function(key)

    def run(rows: Iterable[Any]) -> Iterator[Any]:
        dataset = SourceHandle(open_cached(files))
        for some in chunks(rows, LOOKUP_ROWS):
            keys = [key_of(row) for row in some]
            if how in ("semi", "anti"):
                has_match = dataset.contains(keys).to_pylist()
                yield from (
                    (r, None)
                    for r, hit in zip(some, has_match, strict=True)
                    if hit == (how == "semi")
                )
                continue
            table = dataset.lookup(keys, columns=columns, probe_row=_PROBE_ROW)
            probes = table.column(0).to_pylist()
            matches = table.drop_columns([_PROBE_ROW]).to_pylist() if probes else []
            yield from _pairs(some, probes, matches, how == "left")

    return run


def chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    some: list[Any] = []
    for item in items:
        some.append(item)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some


def _pairs(
    rows: list[Any], probes: list[int], matches: list[Any], left: bool
) -> Iterator[tuple[Any, Any]]:
    at = 0
    for i, row in enumerate(rows):
        if left and (at == len(probes) or probes[at] != i):
            yield row, None
        while at < len(probes) and probes[at] == i:
            yield row, matches[at]
            at += 1


def _key_function(key: Any) -> Callable[[Any], Any]:
    if callable(key):
        return key  # type: ignore[no-any-return]
    if isinstance(key, (list, tuple)):
        return lambda row: tuple(row[name] for name in key)
    return lambda row: row[key]


def _gathered(batches: Iterable[Arrays], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Combines Spark's small batches into larger ones, in the same order."""
    held: list[pa.RecordBatch] = []
    count = 0
    for arrays in batches:
        fields = [
            pa.field(field.name, array.type) for field, array in zip(schema, arrays, strict=True)
        ]
        held.append(pa.RecordBatch.from_arrays(list(arrays), schema=pa.schema(fields)))
        count += held[-1].num_rows
        if count >= LOOKUP_ROWS:
            yield _one(held)
            held, count = [], 0
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _first(rows: pa.RecordBatch) -> int:
    """Returns the number of the first probe row. It is not 0 if the join has split a batch."""
    return int(rows.column(_PROBE_ROW)[0].as_py()) if rows.num_rows else 0


def _lists(
    joined: Iterable[pa.RecordBatch], first: int, num_probes: int, target: pa.Schema
) -> Iterator[pa.Array]:
    """Groups joined rows into one list per probe row, in arrays of bounded size.

    Args:
        first: number of the first of the ``num_probes`` probe rows.
    """
    held: list[pa.RecordBatch] = []
    end = first + num_probes
    for batch in joined:
        held.append(batch)
        if sum(piece.num_rows for piece in held) < MOST_MATCHES:
            continue
        # The next batch may contain more matches of the last probe row.
        last = int(batch.column(_PROBE_ROW)[-1].as_py())
        if last > first:
            rows = pa.Table.from_batches(held)
            numbers = rows.column(_PROBE_ROW).to_numpy()
            done = int(np.searchsorted(numbers, last))
            yield _list_array(rows.slice(0, done), first, last, target)
            held, first = rows.slice(done).to_batches(), last
    rows = pa.Table.from_batches(held) if held else None
    yield _list_array(rows, first, end, target)


def _list_array(rows: pa.Table | None, first: int, last: int, target: pa.Schema) -> pa.Array:
    """Returns the lists of matches of the probe rows from ``first`` to ``last - 1``."""
    data_type = pa.list_(pa.struct(list(target)))
    if rows is None or not rows.num_rows:
        offsets = pa.array(np.zeros(last - first + 1, dtype=np.int32))
        return pa.ListArray.from_arrays(offsets, pa.array([], data_type.value_type), data_type)
    numbers = rows.column(_PROBE_ROW).to_numpy()
    counts = np.bincount(numbers - first, minlength=last - first)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)]).astype(np.int32)
    columns = rows.columns[len(rows.columns) - len(target) :] if len(target) else []
    arrays = [
        conform_array(_combined(column), field)
        for column, field in zip(columns, target, strict=True)
    ]
    if arrays:
        values = pa.StructArray.from_arrays(arrays, fields=list(target))
    else:
        values = pa.StructArray.from_buffers(pa.struct([]), rows.num_rows, [None])
    return pa.ListArray.from_arrays(pa.array(offsets), values, data_type)


def _combined(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _in_zones_of(schema: pa.Schema, probe: pa.Schema) -> pa.Schema:
    """Returns ``schema`` with the types of the probe columns that Spark sent.

    Spark sends timestamps in the session's time zone.
    """
    rest = list(schema)[len(probe) :]
    return pa.schema([*probe, *rest])
