"""Parquet and Arrow as Spark writes them come back as pyarrow reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from comes_back import assert_same

import nimblepy as nb

QUERY = """
SELECT
  CAST(id % 100 AS TINYINT) AS tiny, CAST(id AS SMALLINT) AS small, CAST(id AS INT) AS int,
  id AS long,
  CAST(id / 7 AS FLOAT) AS float, CAST(id / 7 AS DOUBLE) AS double, id % 2 = 0 AS boolean,
  CAST(id / 4 AS DECIMAL(9, 2)) AS decimal_9, CAST(id / 4 AS DECIMAL(18, 4)) AS decimal_18,
  CAST(-id AS DECIMAL(38, 10)) AS decimal_38,
  concat('text ', id) AS text, CAST(concat('b', id) AS BINARY) AS binary,
  DATE '1500-02-28' + CAST(id AS INT) AS date,
  TIMESTAMP '2020-03-08 02:30:00 America/New_York' AS instant,
  TIMESTAMP_NTZ '0001-01-01 00:00:00.000001' AS local,
  array(id, NULL, id + 1) AS list, array(array('a'), array()) AS lists,
  map(concat('k', id), array(id)) AS map,
  named_struct('a', id, 'b', named_struct('c', 'x')) AS struct,
  array(named_struct('m', map(1, 'one'))) AS deep
FROM range(2000)
"""


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    """Every third row has nothing but nulls, except where the column is required."""
    frame = spark.sql(QUERY)
    kept = [f"CASE WHEN long % 3 = 1 THEN NULL ELSE `{n}` END AS `null {n}`" for n in frame.columns]
    return frame.selectExpr("*", *kept)


@pytest.mark.parametrize(
    ("timestamps", "legacy"),
    [("INT96", "true"), ("TIMESTAMP_MICROS", "false"), ("TIMESTAMP_MILLIS", "false")],
)
def test_spark_parquet_comes_back(
    spark: Any, rows: Any, tmp_path: Path, path: str, timestamps: str, legacy: str
) -> None:
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", legacy)
    spark.conf.set("spark.sql.parquet.outputTimestampType", timestamps)
    try:
        rows.coalesce(1).write.parquet(str(tmp_path / "s"))
    finally:
        spark.conf.unset("spark.sql.parquet.writeLegacyFormat")
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    (file,) = (tmp_path / "s").glob("*.parquet")
    want = pa.parquet.read_table(file)
    assert want.num_rows == 2_000
    nb.convert(file, path)
    assert_same(nb.open(path).to_table(), want)


def test_spark_arrow_comes_back(rows: Any, path: str) -> None:
    # PySpark's own cast loses its way in null structs of required fields
    table = rows.drop("null struct", "null deep").toArrow()
    nb.write(table, path, cluster_by="long")
    assert_same(nb.open(path).to_table(), table)
    assert not table.schema.field("long").nullable


def test_spark_intervals_come_back(spark: Any, tmp_path: Path, path: str) -> None:
    frame = spark.sql(
        "SELECT INTERVAL '1' DAY AS day, INTERVAL '2-3' YEAR TO MONTH AS month, id FROM range(9)"
    )
    frame.coalesce(1).write.parquet(str(tmp_path / "s"))
    (file,) = (tmp_path / "s").glob("*.parquet")
    nb.convert(file, path)
    assert_same(nb.open(path).to_table(), pa.parquet.read_table(file))
    arrow = frame.select("day", "id").toArrow()
    nb.write(arrow, path)
    assert_same(nb.open(path).to_table(), arrow)
