"""Lookups as column expressions and as SQL functions."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from nimblepy.errors import IndexUnavailableError, InvalidArgumentError
from nimblepy.schema.names import show_names
from nimblepy.spark.base.inputs import InputPath, find_input
from nimblepy.spark.base.schemas import spark_schema
from nimblepy.spark.joins.arguments import JoinArguments
from nimblepy.spark.joins.index_join import PreparedJoin, lookup_udf, prepare
from nimblepy.spark.joins.tasks import exists_arrays


def lookup_expr(
    path: InputPath, *key_cols: str | Column, columns: Sequence[str] | None = None
) -> Column:
    """Returns all rows of the files with these key values, as a column of ``array<struct>``.

    Use it once, in ``inline`` or ``inline_outer``: ``df.select("*", F.inline(lookup_expr(...)))``.

    Args:
        key_cols: columns, or names of columns, with values for the leading key columns, in order.
        columns: columns of the files; the default is all except the given key columns.
    """
    join = _prepared(path, len(key_cols), columns)
    given = (F.col(c) if isinstance(c, str) else c for c in key_cols)
    matches: Column = lookup_udf(join)(*given)
    return matches


def register_lookup(
    spark: SparkSession, name: str, path: InputPath, columns: Sequence[str] | None = None
) -> None:
    """Registers SQL functions over the files' cluster key.

    * ``FROM fact f, LATERAL name(f.k) d`` is an inner join;
    * ``FROM fact f, LATERAL name_outer(f.k) d`` is a left join;
    * ``name_lookup(k)`` returns the ``array<struct>`` of matches;
    * ``name_exists(k)`` returns whether there is a match.

    Raises:
        InvalidArgumentError: ``name`` is not a plain identifier.
        IndexUnavailableError: the files have no cluster key.
    """
    if not name.isidentifier():
        raise InvalidArgumentError(f"register_lookup: {name!r} is not a plain name")
    join = _prepared(path, None, columns)
    spark.udf.register(f"{name}_lookup", lookup_udf(join))
    spark.udf.register(f"{name}_exists", lookup_udf(join, exists_arrays))
    keys = [f"k{i}" for i in range(len(join.reads))]
    given = ", ".join(
        f"{key} {join.probe[read].dataType.simpleString()}"
        for key, read in zip(keys, join.reads, strict=True)
    )
    fields = ", ".join(
        f"`{field.name}` {field.dataType.simpleString()}" for field in join.added.fields
    )
    for suffix, function in (("", "inline"), ("_outer", "inline_outer")):
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY FUNCTION {name}{suffix}({given}) RETURNS TABLE({fields}) "
            f"RETURN SELECT {function}({name}_lookup({', '.join(keys)}))"
        )


def _prepared(path: InputPath, width: int | None, columns: Sequence[str] | None) -> PreparedJoin:
    """Returns the lookup by the first ``width`` key columns; ``None`` means all."""
    files = find_input(path)
    dataset = files.dataset
    try:  # for a table with a primary key, the primary key
        keys = [key.column for key in dataset.index_keys(None, ordered=False)]
    except IndexUnavailableError:
        raise IndexUnavailableError(f"{path}: these files have no cluster key") from None
    if width is not None and not 1 <= width <= len(keys):
        raise InvalidArgumentError(f"{width} key columns given; the key is ({show_names(keys)})")
    used = keys[:width]
    types = spark_schema(dataset.projected(tuple(used)))
    # Give the probe columns names that do not clash with columns of the files.
    probe = StructType(
        [StructField(f"__key_{i}", field.dataType) for i, field in enumerate(types.fields)]
    )
    on = {f"__key_{i}": name for i, name in enumerate(used)}
    return prepare(probe, files, JoinArguments(on=on, columns=columns))
