"""Task functions that write, merge and measure tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from nimblepy.schema.names import Path
from nimblepy.spark.base.inputs import SparkInput, open_cached
from nimblepy.spark.base.tasks import Batches, numbers, reader_of

if TYPE_CHECKING:
    from nimblepy.table.changing.merge_plan import MergePlan
    from nimblepy.table.changing.shared_merge import Part
    from nimblepy.table.reading.members import MemberRows
    from nimblepy.table.writing.write import Target


def written_files(target: Target) -> Batches:
    """Writes rows of a table; returns descriptions of the files."""
    from nimblepy.table.reading.shipped import files_as_text
    from nimblepy.table.writing.write import write_rows

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = reader_of(batches)
        files = [] if rows is None else write_rows(rows, target)
        yield pa.RecordBatch.from_pydict({"files": [files_as_text(files)]})

    return run


def saved_parts(plan: MergePlan, target: Target) -> Batches:
    """Saves rows of the source of a merge; returns the saved part."""
    from nimblepy.table.changing.shared_merge import part_rows, save_part

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = reader_of(batches)
        part = None if rows is None else save_part(rows, plan, target)
        if part is not None:
            yield part_rows(part)

    return run


def merged_parts(parts: list[Part], plan: MergePlan, files: SparkInput, target: Target) -> Batches:
    """Maps numbers of parts of a merge to their outcomes."""
    from nimblepy.table.changing.shared_merge import outcome, outcome_rows

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers(batches):
            done = outcome(parts[number], plan, _members(files), target)
            yield outcome_rows(number, done)

    return run


def parts_with_keys(parts: list[Part], plan: MergePlan, files: SparkInput) -> Batches:
    """Maps numbers of parts of a merge to whether the table has rows with keys of the part."""
    from nimblepy.table.changing.shared_merge import holds

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers(batches):
            held = holds(parts[number], plan, _members(files))
            yield pa.RecordBatch.from_pydict({"part": [number], "holds": [held]})

    return run


def written_groups(groups: list[str], target: Target) -> Batches:
    """Rewrites groups of files, given by number; returns descriptions of the new files."""
    from nimblepy.table.reading.shipped import files_as_text
    from nimblepy.table.upkeep.shipped_groups import written_group

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers(batches):
            text = files_as_text(written_group(groups[number], target))
            yield pa.RecordBatch.from_pydict({"part": [number], "files": [text]})

    return run


def column_sketches(parts: list[str], columns: list[Path]) -> Batches:
    """Maps numbers of parts of a table to sketches of the columns and the number of rows."""
    from nimblepy.table.reading.shipped import rows_of_text
    from nimblepy.table.upkeep.analyze import look

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers(batches):
            sketches, count = look(rows_of_text(parts[number]), columns, threads=1)
            octets = [sketch.to_bytes() for sketch in sketches]
            yield pa.RecordBatch.from_pydict({"sketches": [octets], "rows": [count]})

    return run


def _members(files: SparkInput) -> MemberRows:
    """The rows of a table's files, cached between tasks."""
    return cast("MemberRows", open_cached(files))


def partition_values(
    transform: str, field: pa.Field
) -> Callable[[Iterable[tuple[pa.Array, ...]]], Iterator[pa.Array]]:
    """Maps values of a column to values of a partition field."""
    from nimblepy.table.base.transforms import transform as transform_of
    from nimblepy.table.base.types import Conformer

    apply, schema = transform_of(transform, field.type), pa.schema([field])

    def run(batches: Iterable[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        for arrays in batches:
            batch = pa.RecordBatch.from_arrays(list(arrays), names=schema.names)
            yield apply(Conformer(batch.schema, schema)(batch).column(0))

    return run
