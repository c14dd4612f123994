"""Runs an index join: takes probe batches and yields joined batches.

Python, Spark tasks and datasets all run the same generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError
from nimblepy.expr.evaluate import compare_floats
from nimblepy.input.tabular import slices
from nimblepy.join.keys import probe_keys
from nimblepy.join.plan import JoinPlan
from nimblepy.rows.gather import gather, gather_array, keep, rows_without_columns
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.rows.source import RowSource

# Maximum number of rows in a joined batch, so that a key with many matches needs little memory.
OUTPUT_ROWS = 65_536

Mask = np.ndarray[Any, np.dtype[np.bool_]]
# Finds the matches of a probe batch.
Find: TypeAlias = Callable[[RowSource, pa.RecordBatch], RowSet]


def join_batches(
    plan: JoinPlan,
    build: RowSource,
    batches: Iterable[pa.RecordBatch],
    *,
    output_rows: int = OUTPUT_ROWS,
    find: Find | None = None,
) -> Iterator[pa.RecordBatch]:
    """Joins probe batches one by one. Rows are in probe order, then in order of the build side.

    The lookup of a batch overlaps with the caller's work on the previous batch.

    Args:
        batches: batches with the probe columns of ``plan``.
        output_rows: maximum number of rows in a returned batch.
        find: finds the matches of a batch. By default, all rows with the keys match.
    """
    pieces = joined_by_batch(plan, build, batches, output_rows=output_rows, find=find)
    for _, joined in pieces:
        yield from joined


def joined_by_batch(
    plan: JoinPlan,
    build: RowSource,
    batches: Iterable[pa.RecordBatch],
    *,
    output_rows: int = OUTPUT_ROWS,
    find: Find | None = None,
) -> Iterator[tuple[pa.RecordBatch, Iterator[pa.RecordBatch]]]:
    """Like :func:`join_batches`, but also yields each probe batch.

    Returns:
        Pairs of a probe batch and its joined batches, which must be consumed before the next pair.
    """
    pieces = (piece for batch in batches for piece in slices(batch))
    held = next(pieces, None)
    if held is None:
        return
    find_matches = partial(_matches, plan) if find is None else find
    following = next(pieces, None)
    if following is None:  # there is no other work to overlap with
        yield held, _pieces(plan, build, held, output_rows, find_matches)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="nimble-join") as ahead:
        started = ahead.submit(_start, _pieces(plan, build, held, output_rows, find_matches))
        while following is not None:
            next_started = ahead.submit(
                _start, _pieces(plan, build, following, output_rows, find_matches)
            )
            yield held, _rest(*started.result())
            held, started = following, next_started
            following = next(pieces, None)
        yield held, _rest(*started.result())


def _start(
    pieces: Iterator[pa.RecordBatch],
) -> tuple[pa.RecordBatch | None, Iterator[pa.RecordBatch]]:
    return next(pieces, None), pieces


def _rest(
    first: pa.RecordBatch | None, pieces: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    if first is not None:
        yield first
        yield from pieces


def _matches(plan: JoinPlan, build: RowSource, batch: pa.RecordBatch) -> RowSet:
    return build.find(probe_keys(plan, build.schema, batch))


def _pieces(
    plan: JoinPlan, build: RowSource, batch: pa.RecordBatch, output_rows: int, find: Find
) -> Iterator[pa.RecordBatch]:
    """Yields the joined rows of one probe batch."""
    matches = find(build, batch)
    if plan.how in ("inner", "left"):
        for piece in _slots(matches, plan.how == "left", output_rows):
            joined = _joined(plan, build, batch, piece)
            if joined.num_rows:
                yield joined
        return
    has_match = _found(plan, build, batch, matches, output_rows)
    kept = keep(batch, has_match if plan.how == "semi" else ~has_match)
    if kept.num_rows:
        yield kept


@dataclass(frozen=True, slots=True)
class _Piece:
    """Consecutive rows of the joined result, before the residual condition is tested.

    Attributes:
        probe: the probe row of each joined row.
        rows: the build rows, of the joined rows that have a build row.
        missing: for each joined row, whether it has no build row; ``None`` if all have a build row.
        last: for each joined row, whether it is the last joined row of its probe row.
        carry: one bool that the pieces of a batch share. It tells whether the probe row that
            continues in the next piece already had a passing row.
    """

    probe: Positions
    rows: RowSet
    missing: Mask | None
    last: Mask
    carry: list[bool]


def _slots(matches: RowSet, left: bool, output_rows: int) -> Iterator[_Piece]:
    """Splits the joined rows into pieces. A left join has at least one row per probe row."""
    match_counts = matches.counts
    counts = np.maximum(match_counts, 1) if left else match_counts
    slot_ends = np.cumsum(counts)
    total = int(slot_ends[-1]) if len(slot_ends) else 0
    carry = [False]
    match_at = 0
    for begin in range(0, total, output_rows):
        at = np.arange(begin, min(total, begin + output_rows), dtype=np.int64)
        one_to_one = total == len(counts) and bool((counts == 1).all())
        probe = at if one_to_one else np.searchsorted(slot_ends, at, side="right")
        missing = match_counts[probe] == 0 if left else None
        if missing is not None and not missing.any():
            missing = None
        num_rows = len(at) if missing is None else int(len(at) - missing.sum())
        rows = matches.slice(match_at, match_at + num_rows)
        match_at += num_rows
        yield _Piece(probe, rows, missing, slot_ends[probe] == at + 1, carry)
    assert match_at == matches.num_rows


def _joined(
    plan: JoinPlan, build: RowSource, batch: pa.RecordBatch, piece: _Piece
) -> pa.RecordBatch:
    """Reads one piece as a batch of the result."""
    taken = _take(build, piece.rows, plan.reads)
    probe, missing = piece.probe, piece.missing
    if plan.has_residual:
        passing = _passing(plan, batch, probe if missing is None else probe[~missing], taken)
        probe, missing, taken = _after_residual(plan, piece, passing, taken)
    left = _probe_rows(batch, probe)
    columns = [taken.column(name) for name, _ in plan.output]
    if missing is not None and missing.any():
        place = np.cumsum(~missing) - 1
        positions = pa.array(place, pa.int64(), mask=missing)
        columns = [gather_array(column, positions) for column in columns]
    arrays = [*left.columns, *columns]
    if not arrays:
        return left
    return pa.RecordBatch.from_arrays(arrays, schema=plan.schema)


def _after_residual(
    plan: JoinPlan, piece: _Piece, passing: Mask, taken: pa.RecordBatch
) -> tuple[Positions, Mask | None, pa.RecordBatch]:
    """Returns the rows of a piece that pass the residual condition.

    In a left join, a probe row without a passing match is returned once, without a build row.
    """
    if plan.how != "left":
        return piece.probe[passing], None, keep(taken, passing)
    kept = np.zeros(len(piece.probe), dtype=np.bool_)
    kept[np.ones_like(kept) if piece.missing is None else ~piece.missing] = passing
    first = int(piece.probe[0])
    of_probe = np.bincount(piece.probe - first, weights=kept) > 0
    of_probe[0] |= piece.carry[0]
    # Only the last probe row can continue in the next piece.
    piece.carry[0] = bool(of_probe[-1]) and not bool(piece.last[-1])
    missing = piece.last & ~of_probe[piece.probe - first]
    shown = kept | missing
    return piece.probe[shown], missing[shown], keep(taken, passing)


def _found(
    plan: JoinPlan, build: RowSource, batch: pa.RecordBatch, matches: RowSet, output_rows: int
) -> Mask:
    """Returns which probe rows have a match that passes."""
    if not plan.has_residual:
        return matches.counts > 0
    has_match = np.zeros(batch.num_rows, dtype=np.bool_)
    for piece in _slots(matches, False, output_rows):
        taken = _take(build, piece.rows, plan.reads)
        has_match[piece.probe[_passing(plan, batch, piece.probe, taken)]] = True
    return has_match


def _passing(
    plan: JoinPlan, batch: pa.RecordBatch, probe: Positions, taken: pa.RecordBatch
) -> Mask:
    """Returns which matches satisfy the remaining ranges and the condition."""
    passing = np.ones(len(probe), dtype=np.bool_)
    if not len(probe):
        return passing
    rows = _probe_rows(batch, probe)
    for item in plan.residual_betweens:
        value = taken.column(item.column)
        sides = []
        if item.lower is not None:
            sides.append(_less_equal(plan, rows.column(item.lower), value))
        if item.upper is not None:
            sides.append(_less_equal(plan, value, rows.column(item.upper)))
        for inside in sides:
            passing &= pc.fill_null(inside, False).to_numpy(zero_copy_only=False)
    if plan.condition is None:
        return passing
    shown = dict(plan.residual)
    used = [n for n in taken.schema.names if n in shown and shown[n] not in rows.schema.names]
    arrays = [*rows.columns, *(taken.column(name) for name in used)]
    names = [*rows.schema.names, *(shown[name] for name in used)]
    mask = plan.condition.mask(pa.RecordBatch.from_arrays(arrays, names=names))
    passing &= mask.to_numpy(zero_copy_only=False)
    return passing


def _less_equal(plan: JoinPlan, left: pa.Array, right: pa.Array) -> pa.Array:
    left, right = _ordered(left), _ordered(right)
    floats = pt.is_floating(left.type) or pt.is_floating(right.type)
    try:
        if plan.nan_greatest and floats:
            return compare_floats("<=", left, right)
        return pc.less_equal(left, right)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(
            f"between: cannot compare {left.type} with {right.type}: {error}"
        ) from error


def _ordered(array: pa.Array) -> pa.Array:
    """Converts half floats to floats, because pyarrow cannot compare half floats."""
    return array.cast(pa.float32()) if pt.is_float16(array.type) else array


def _probe_rows(batch: pa.RecordBatch, probe: Positions) -> pa.RecordBatch:
    if len(probe) == batch.num_rows and (not len(probe) or _is_identity(probe)):
        return batch
    return gather(batch, pa.array(probe))


def _is_identity(probe: Positions) -> bool:
    return bool(probe[0] == 0 and (np.diff(probe) == 1).all())


def _take(build: RowSource, rows: RowSet, names: tuple[str, ...]) -> pa.RecordBatch:
    """Reads build rows as one batch."""
    if not names:
        return rows_without_columns(rows.num_rows)
    table = build.read(rows, names)
    columns = [_one_array(column) for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        raise InvalidArgumentError(
            "a joined batch does not fit in one array of its type; use fewer output rows"
        )
    return array
