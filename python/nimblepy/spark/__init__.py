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

from nimblepy.spark.asof import asof_join
from nimblepy.spark.connect import optimize
from nimblepy.spark.estimate import JoinEstimate
from nimblepy.spark.explain import JoinDecision, JoinDecisions, explain_join
from nimblepy.spark.join import index_join, index_join_rdd
from nimblepy.spark.lookup import lookup_expr, register_lookup
from nimblepy.spark.metadata import files_for_keys
from nimblepy.spark.optimizer import register
from nimblepy.spark.source import NimbleDataSource, scan
from nimblepy.spark.table_changes import changes
from nimblepy.spark.table_merge import merge
from nimblepy.spark.table_upkeep import analyze, compact
from nimblepy.spark.write import write

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
    "optimize",
    "register",
    "register_lookup",
    "scan",
    "write",
]
