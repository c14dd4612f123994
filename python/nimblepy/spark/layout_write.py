"""DataFrames to tables with a layout: rows that are near each other come to one task.

Of an OTree or a Z-order a first job samples the columns of the layout and the driver plans the
cubes; a shuffle brings the rows of a part of the curve together, and tasks write their cubes. Where
a row goes depends on its values alone, and its weight is drawn where it is written: so a task that
runs again loses and repeats nothing, whatever order its rows come in. What tasks have of the cubes
that lie in several parts, those near the root, is put together in the end: by the driver where
it is little.
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
from nimblepy.spark.arguments import quoted
from nimblepy.spark.errors import own_errors
from nimblepy.spark.shipping import array_udf, map_in_arrow, run_numbered
from nimblepy.spark.table_upkeep import ALONE_BYTES

if TYPE_CHECKING:
    from nimblepy.table.base.model import DataFile
    from nimblepy.table.otree.layouts import OTree, ZOrder
    from nimblepy.table.otree.planned import RowSample
    from nimblepy.table.writing.write import Target

# Rows of the samples of a partition of the DataFrame, and of all together.
_OF_A_TASK, _OF_ALL = 1 << 15, 1 << 20
_JOINED = pa.schema({"files": pa.string()})


def by_curve(
    df: DataFrame, target: Target, layout: OTree | ZOrder, files: int | None
) -> tuple[DataFrame, Target]:
    """The rows, each part of the curve in one task, and what these write.

    Args:
        files: most tasks; ``None``: as many as Spark's shuffles have.

    Cost: a job that reads the columns of the layout; Spark computes them twice, as for its own
        partitions by ranges.
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
        part = array_udf("curve_parts", len(names), IntegerType(), planned, names, schema, paths)
        rows = df.repartitionById(planned.parts, part(*(F.col(quoted(name)) for name in names)))
    return rows, replace(target, planned=planned)


def _sampled(
    df: DataFrame, names: Sequence[str], schema: pa.Schema, paths: Sequence[Path]
) -> RowSample | None:
    """A sample of all rows; ``None`` where there are none."""
    from nimblepy.table.otree.planned import RowSample

    if not names:
        return None
    columns = df.select(*(F.col(quoted(name)) for name in names))
    kind = "sample binary"
    parts = map_in_arrow(columns, "sampled_rows", kind, schema, paths, _OF_A_TASK).repartition(1)
    with own_errors():
        found = map_in_arrow(parts, "merged_samples", kind, _OF_ALL).collect()
    return RowSample.from_bytes(bytes(found[0][0]), _OF_ALL) if found else None


def whole_cubes(spark: Any, files: list[DataFile], target: Target) -> list[DataFile]:
    """These files, with one in place of those that have a part of the same cube."""
    from nimblepy.table.reading.shipped import files_as_text, files_of_text
    from nimblepy.table.writing.pieces import join_pieces
    from nimblepy.table.writing.write import discard

    groups = [] if target.planned is None else target.planned.pieces(files)
    if not groups:
        return files
    alone = sum(file.bytes for group in groups for file in group) <= ALONE_BYTES
    joined: list[DataFile] = []
    try:
        if alone:
            for group in groups:
                joined += join_pieces(group, target)
        else:
            texts = [files_as_text(group) for group in groups]
            made = run_numbered(spark, "joined_pieces", _JOINED, len(texts), texts, target)
            joined = [file for text in made["files"].to_pylist() for file in files_of_text(text)]
    except BaseException:
        discard([*files, *joined])
        raise
    pieces = {file.path: file for group in groups for file in group}
    discard(list(pieces.values()))
    return [*(file for file in files if file.path not in pieces), *joined]
