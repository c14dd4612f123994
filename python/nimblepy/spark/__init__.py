"""nimble files in Spark 4, from PySpark alone: no jar, nothing to configure.

    import nimblepy.spark as ns

    df = spark.read.format("nimble").load("dim.nimble")
    ns.write(df, "dim/", cluster_by="k")
    ns.index_join(facts, "dim/", on="k", how="left")

See docs/reference/spark.md for features, costs, and workarounds for problems of Spark.
"""

from __future__ import annotations

from nimblepy.errors import MissingExtraError

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        'nimblepy.spark needs PySpark: pip install "nimblepy[spark]"'
    ) from error

from nimblepy.spark.joins.asof import asof_join
from nimblepy.spark.joins.estimate import JoinEstimate
from nimblepy.spark.joins.index_join import index_join, index_join_rdd
from nimblepy.spark.joins.lookup import lookup_expr, register_lookup
from nimblepy.spark.joins.nearest import nearest
from nimblepy.spark.optimizer.connect import optimize
from nimblepy.spark.optimizer.explain import JoinDecision, JoinDecisions, explain_join
from nimblepy.spark.reading.changes import changes
from nimblepy.spark.reading.metadata import files_for_keys
from nimblepy.spark.reading.scan import scan
from nimblepy.spark.source import NimbleDataSource, register
from nimblepy.spark.writing.merge import merge
from nimblepy.spark.writing.upkeep import analyze, compact
from nimblepy.spark.writing.write import write

__all__ = [
    "JoinDecision",
    "JoinDecisions",
    "JoinEstimate",
    "NimbleDataSource",
    "analyze",
    "asof_join",
    "changes",
    "compact",
    "explain_join",
    "files_for_keys",
    "index_join",
    "index_join_rdd",
    "lookup_expr",
    "merge",
    "nearest",
    "optimize",
    "register",
    "register_lookup",
    "scan",
    "write",
]
