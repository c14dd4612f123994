"""Estimates, without a job, whether an index join is cheaper than Spark's own join over a scan.

The costs are processor times, measured on two cores with warm files
(docs/internals/decisions/0018). Only their ratios matter here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    FloatType,
    IntegerType,
    ShortType,
    StringType,
    StructType,
)

from nimblepy.errors import NimbleError
from nimblepy.files.source import FilesSource
from nimblepy.rows.rowset import Positions, RowSet
from nimblepy.schema.names import ColumnName
from nimblepy.spark.base.frames import is_connect
from nimblepy.spark.joins.arguments import JoinArguments

# Microseconds of processor time:
PROBE_COST = 0.45  # look up one key, including the transfer to Python and back.
PROBE_COLUMN_COST = 0.05  # fetch one column for a key.
MATCH_COLUMN_COST = 0.1  # fetch one column for each further match of a key.
SCAN_START_COST = 200_000  # plan a scan in a Python worker.
SCAN_COST = 0.11  # transfer one row of the files to the JVM.
SCAN_COLUMN_COST = 0.02  # transfer one column of such a row, including key columns.
BROADCAST_COST = 0.5  # collect, send and hash one row.
HASH_COST = 0.05  # look one row up in a broadcast table.
MERGE_COST = 0.4  # shuffle, sort and merge one row of either side.
# Spark broadcasts a side whose estimated size is below this.
BROADCAST_BYTES = 10 << 20
# Files with more rows are never broadcast without a hint of the user.
MOST_BROADCAST_ROWS = 2_000_000
# Files with at most this many rows are broadcast if the size of the other side is unknown.
FEW_ROWS = 300_000
# Rows of the largest file whose keys are counted.
SAMPLED_KEYS = 128
# Spark's placeholder for an unknown size is 8 EiB.
UNKNOWN_BYTES = 1 << 60
_STATISTICS = re.compile(
    r"Statistics\(sizeInBytes=([\d.]+(?:E[+-]?\d+)?) (\w+)(?:, rowCount=([\d.E+]+))?"
)
_UNITS = {"B": 0, "KIB": 10, "MIB": 20, "GIB": 30, "TIB": 40, "PIB": 50, "EIB": 60}


@dataclass(frozen=True, kw_only=True)
class JoinEstimate:
    """Estimated processor seconds of each join strategy. Prints as a table.

    Attributes:
        strategy: ``"index"`` or ``"scan"``.
        probe_rows: rows of the probe side; ``None`` if Spark does not know.
        build_rows: rows of the files.
        matches: average rows per key, from the table's statistics or from some keys of its index;
            ``None`` if neither tells, and then the estimate assumes one.
        most_matches: the most rows of a sampled key; 0 if none was sampled.
        index_seconds: the index join; ``None`` if there is no index, or the probe is unknown.
        broadcast_seconds: a scan of the files and a broadcast of the probe; ``None`` if the probe
            is too large for it.
        sort_merge_seconds: a scan of the files and a sort-merge join.
        files_broadcast_seconds: a scan and a broadcast of the files; ``None`` if they have too
            many rows for it.
        reason: why the strategy was chosen.
    """

    strategy: str
    probe_rows: int | None
    build_rows: int
    matches: float | None
    most_matches: int
    index_seconds: float | None
    broadcast_seconds: float | None
    sort_merge_seconds: float | None
    files_broadcast_seconds: float | None = None
    reason: str

    @property
    def broadcasts_files(self) -> bool:
        """Whether broadcasting the files is the cheapest strategy that scans them."""
        others = [self.broadcast_seconds, self.sort_merge_seconds]
        costs = [seconds for seconds in others if seconds is not None]
        if self.files_broadcast_seconds is None:
            return self.probe_rows is None and self.build_rows <= FEW_ROWS
        return all(self.files_broadcast_seconds < seconds for seconds in costs)

    def __str__(self) -> str:
        def shown(seconds: float | None) -> str:
            return "     ?" if seconds is None else f"{seconds:10.2f} s"

        rows = "?" if self.probe_rows is None else f"{self.probe_rows:,}"
        return "\n".join(
            [
                f"join of {rows} probe rows with {self.build_rows:,} rows"
                + ("" if self.matches is None else f", {self.matches:,.3g} of a key")
                + f": {self.strategy}",
                f"  index join                 {shown(self.index_seconds)}",
                f"  scan and broadcast probe   {shown(self.broadcast_seconds)}",
                f"  scan and broadcast files   {shown(self.files_broadcast_seconds)}",
                f"  scan and sort-merge        {shown(self.sort_merge_seconds)}",
                f"  {self.reason}",
            ]
        )


def estimate_join(
    probe: DataFrame, dataset: FilesSource, join: JoinArguments, probe_rows: int | None = None
) -> JoinEstimate:
    """Estimates the costs of joining ``probe`` with a dataset."""
    rows, size = _probe_size(probe)
    return estimate_costs(
        dataset,
        [name for _, name in join.pairs],
        num_columns=len(join.added([], dataset.schema)),
        how=join.how,
        probe_rows=probe_rows if probe_rows is not None else rows,
        probe_bytes=size,
    )


def estimate_costs(
    dataset: FilesSource,
    keys: list[Any],
    *,
    num_columns: int,
    how: str,
    probe_rows: int | None,
    probe_bytes: int | None,
) -> JoinEstimate:
    """Estimates the costs of a join on ``keys`` that needs ``num_columns`` other columns."""
    rows = probe_rows
    build_rows = dataset.num_rows
    matches, most_matches = rows_per_key(dataset, keys)
    if rows is None:
        return JoinEstimate(
            strategy="index",
            probe_rows=None,
            build_rows=build_rows,
            matches=matches,
            most_matches=most_matches,
            index_seconds=None,
            broadcast_seconds=None,
            sort_merge_seconds=None,
            reason="Spark does not know how many rows the probe has",
        )
    further = ((matches or 1) - 1) * MATCH_COLUMN_COST
    index = rows * (PROBE_COST + (PROBE_COLUMN_COST + further) * num_columns)
    scan = SCAN_START_COST + build_rows * (SCAN_COST + SCAN_COLUMN_COST * (num_columns + len(keys)))
    merge = scan + (rows + build_rows) * MERGE_COST
    small = probe_bytes is not None and probe_bytes <= BROADCAST_BYTES and how in ("inner", "semi")
    broadcast = scan + rows * BROADCAST_COST + build_rows * HASH_COST
    of_files = scan + build_rows * BROADCAST_COST + rows * HASH_COST
    few = build_rows <= MOST_BROADCAST_ROWS
    own = min([merge] + [broadcast] * small + [of_files] * few)
    strategy = "index" if index <= own else "scan"
    share = rows * (matches or 1) / max(1, build_rows)
    reason = f"{share:.2%} of the files' rows are looked up: " + (
        "fewer than a scan pays for" if strategy == "index" else "a scan costs less"
    )
    return JoinEstimate(
        strategy=strategy,
        probe_rows=rows,
        build_rows=build_rows,
        matches=matches,
        most_matches=most_matches,
        index_seconds=index / 1e6,
        broadcast_seconds=broadcast / 1e6 if small else None,
        sort_merge_seconds=merge / 1e6,
        files_broadcast_seconds=of_files / 1e6 if few else None,
        reason=reason,
    )


def rows_per_key(dataset: FilesSource, names: Sequence[ColumnName]) -> tuple[float | None, int]:
    """Returns the average rows per key of these columns, and the most rows of a sampled key.

    The average is from the statistics of a table, otherwise from the sample. It is ``None`` if
    neither is known. The sample counts the rows of some keys in the index of the largest file. If
    other files may have the same keys, it assumes that they have proportionally many rows of these
    keys.
    """
    counts = _sampled_counts(dataset, names)
    most = int(counts.max(initial=0))
    num_keys = dataset.distinct_keys(names)
    if num_keys:
        return max(1.0, dataset.num_rows / num_keys), most
    # A key is sampled with a probability proportional to its rows, so use the harmonic mean.
    return (float(len(counts) / (1 / counts).sum()) if len(counts) else None), most


def _sampled_counts(dataset: FilesSource, names: Sequence[ColumnName]) -> Positions:
    """Returns the rows of some keys; empty if keys are unique or no index has these columns."""
    nothing = np.zeros(0, np.int64)
    # All files can be searched only by the primary key of a table, which is unique.
    if not dataset.num_files or not names or dataset.always_finds(names):
        return nothing
    largest = max(range(dataset.num_files), key=dataset.stored_rows)
    file = dataset.child(largest)
    if not file.num_rows or (file.unique and {key.column for key in file.cluster_by} <= {*names}):
        return nothing
    rows = np.linspace(0, file.num_rows, SAMPLED_KEYS, endpoint=False).astype(np.uint64)
    try:
        keys = file.read(RowSet(np.unique(rows)), tuple(names))
        counts = file.find(file.keys_request(keys, list(names), null_equals=True)).counts
    except (NimbleError, ValueError):
        return nothing
    first = dataset.cluster_by[0].column if dataset.cluster_by else None
    if first in names and dataset.bounds is not None and dataset.bounds.disjoint:
        return np.maximum(counts, 1)
    return (np.maximum(counts, 1) * (dataset.num_rows / file.num_rows)).astype(np.int64)


def _probe_size(probe: DataFrame) -> tuple[int | None, int | None]:
    """Parses (rows, bytes) of the probe from Spark's plan text, which Spark Connect also has."""
    connected: Any = probe
    if is_connect(probe):
        text = str(connected._explain_string(mode="cost"))
    else:
        jdf = connected._jdf
        jvm = connected.sparkSession._jvm
        text = str(jvm.PythonSQLUtils.explainString(jdf.queryExecution(), "cost"))
    match = _STATISTICS.search(text)
    if match is None:
        return None, None
    number, unit, count = match.groups()
    size = int(float(number) * 2 ** _UNITS.get(unit.upper(), 0))
    if size >= UNKNOWN_BYTES:
        return None, None
    if count is not None:
        return int(float(count)), size
    return max(1, size // _row_bytes(probe.schema)), size


def _row_bytes(schema: StructType) -> int:
    """Returns Spark's default size estimate for a row of these types."""
    size = 8
    for field in schema:
        kind = field.dataType
        if isinstance(kind, (StringType, BinaryType)):
            size += 20
        elif isinstance(kind, (BooleanType, ByteType)):
            size += 1
        elif isinstance(kind, ShortType):
            size += 2
        elif isinstance(kind, (IntegerType, FloatType, DateType)):
            size += 4
        else:
            size += 8
    return size
