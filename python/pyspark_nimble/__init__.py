"""PySpark finds data sources in top-level modules called ``pyspark_*``: this one is ``nimble``."""

from nimblepy.spark.source import NimbleDataSource as DefaultSource

__all__ = ["DefaultSource"]
