"""Writes DataFrames to tables with a layout, so that one task writes rows that are close together.

For an OTree or a Z-order, a first job samples the columns of the layout, and the driver plans the
cubes. A shuffle then collects the rows of each part of the curve, and tasks write their cubes. The
part of a row depends only on its values, and its weight is drawn by the task that writes it. A
restarted task therefore neither loses nor repeats rows, in whatever order it gets them.

Cubes near the root extend over several parts. Their pieces are merged at the end: on the driver if
they are small, otherwise in tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

from nimblepy.schema.names import Path
from nimblepy.spark.base.errors import own_errors
from nimblepy.spark.base.frames import quoted
from nimblepy.spark.base.shipping import array_udf, map_in_arrow, run_numbered
from nimblepy.spark.writing.layout_tasks import (
    curve_parts,
    joined_pieces,
    merged_samples,
    sampled_rows,
)
from nimblepy.spark.writing.upkeep import ALONE_BYTES

if TYPE_CHECKING:
    from nimblepy.table.base.model import DataFile
    from nimblepy.table.otree.layouts import OTree, ZOrder
    from nimblepy.table.otree.planned import RowSample
    from nimblepy.table.writing.write import Target

# Maximum rows of the sample of one DataFrame partition, and of the merged sample.
_OF_A_TASK, _OF_ALL = 1 << 15, 1 << 20
_JOINED = pa.schema({"files": pa.string()})


def by_curve(
    df: DataFrame, target: Target, layout: OTree | ZOrder, files: int | None
) -> tuple[DataFrame, Target]:
    """Partitions rows by parts of the curve; returns the rows and the target with the plan.

    Args:
        files: maximum number of tasks; the default is Spark's number of shuffle partitions.

    Cost: a job that reads the columns of the layout. Spark computes these columns twice, as in its
        own ``repartitionByRange``.
    """
    from nimblepy.table.otree.planned import layout_paths, plan

    paths = layout_paths(layout, target.schema)
    names = list(dict.fromkeys(path[0] for path in paths if path[0] in df.columns))
    schema = pa.schema(
        [target.schema.field(path[0]) for path in dict.fromkeys(p[:1] for p in paths)]
    )
    sample = _sampled(df, names, schema, paths)
    if sample is None:
        return df, target
    planned = plan(
        sample,
        layout,
        target.schema,
        rows_before=target.rows_before,
        known=target.space,
        most_parts=files or int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1),
    )
    if planned.parts == 1:
        rows = df.coalesce(1)
    else:
        part = array_udf(curve_parts, len(names), IntegerType(), planned, names, schema, paths)
        rows = df.repartitionById(planned.parts, part(*(F.col(quoted(name)) for name in names)))
    return rows, replace(target, planned=planned)


def _sampled(
    df: DataFrame, names: Sequence[str], schema: pa.Schema, paths: Sequence[Path]
) -> RowSample | None:
    """A sample of all rows; ``None`` if there are no rows."""
    from nimblepy.table.otree.planned import RowSample

    if not names:
        return None
    columns = df.select(*(F.col(quoted(name)) for name in names))
    kind = "sample binary"
    parts = map_in_arrow(columns, sampled_rows, kind, schema, paths, _OF_A_TASK).repartition(1)
    with own_errors():
        merged = map_in_arrow(parts, merged_samples, kind, _OF_ALL).collect()
    return RowSample.from_bytes(bytes(merged[0][0]), _OF_ALL) if merged else None


def whole_cubes(spark: Any, files: list[DataFile], target: Target) -> list[DataFile]:
    """Merges files that hold pieces of the same cube; returns all files after that."""
    from nimblepy.table.reading.shipped import files_as_text, files_of_text
    from nimblepy.table.writing.pieces import join_pieces
    from nimblepy.table.writing.write import discard

    groups = [] if target.planned is None else target.planned.pieces(files)
    if not groups:
        return files
    on_driver = sum(file.bytes for group in groups for file in group) <= ALONE_BYTES
    joined: list[DataFile] = []
    try:
        if on_driver:
            for group in groups:
                joined += join_pieces(group, target)
        else:
            texts = [files_as_text(group) for group in groups]
            results = run_numbered(spark, joined_pieces, _JOINED, len(texts), texts, target)
            joined = [file for text in results["files"].to_pylist() for file in files_of_text(text)]
    except BaseException:
        discard([*files, *joined])
        raise
    pieces = {file.path: file for group in groups for file in group}
    discard(list(pieces.values()))
    return [*(file for file in files if file.path not in pieces), *joined]
