"""Files of other formats are recognised and streamed; polars predicates are pushed when safe."""

from __future__ import annotations

import gzip
import json
from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import nimblepy as nb
from nimblepy.expr.filter import parse_filter
from nimblepy.input import foreign
from nimblepy.input.foreign import open_files

pytestmark = pytest.mark.sanitizer

needs_core = pytest.mark.skipif(
    find_spec("nimblepy._core") is None, reason="the compiled core is not built here"
)

TABLE = pa.table({"a": [3, 1, 2], "b": ["x", None, "z"], "c": [0.5, 1.5, 2.5]})


def write(path: Path) -> Path:
    match path.suffix:
        case ".parquet":
            pq.write_table(TABLE, path, row_group_size=2)
        case ".csv":
            pyarrow.csv.write_csv(TABLE, path)
        case ".tsv":
            path.write_text("a\tb\tc\n3\tx\t0.5\n1\t\t1.5\n2\tz\t2.5\n")
        case ".gz":
            with gzip.open(path, "wb") as file:
                file.write(b"a,b,c\n3,x,0.5\n1,,1.5\n2,z,2.5\n")
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in TABLE.to_pylist()))
        case ".nimble":
            nb.write(TABLE, path)
        case ".feather":
            pyarrow.feather.write_feather(TABLE, path)
        case ".arrows":
            with pa.ipc.new_stream(path, TABLE.schema) as writer:
                writer.write_table(TABLE)
        case _:
            with pa.ipc.new_file(path, TABLE.schema) as writer:
                writer.write_table(TABLE)
    return path


NAMES = [
    "t.parquet",
    "t.csv",
    "t.tsv",
    "t.csv.gz",
    "t.feather",
    "t.arrow",
    "t.arrows",
    "t.jsonl",
    "t.nimble",
]


def test_nulls_of_csv_are_empty_fields_and_na_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "number,text,float,day,none,quoted,flag,code\n"
        '1,NA,nan,2024-01-01,,"1",true,NA\n'
        ',,inf,,,"",,NA\n'
        'NA,"",NA,NULL,,"2",NA,NA\n'
    )
    read = open_files(tmp_path / "t.csv")[0].read_all()
    assert repr(read.to_pydict()) == repr(
        {
            "number": [1, None, None],
            "text": ["NA", None, ""],
            "float": [float("nan"), float("inf"), None],
            "day": [date(2024, 1, 1), None, None],
            "none": [None, None, None],
            "quoted": [1, None, 2],
            "flag": [True, None, None],
            "code": ["NA", "NA", "NA"],
        }
    )


def test_columns_of_a_csv_file_of_many_blocks_stay_in_rows(tmp_path: Path) -> None:
    rows = 1_800_000
    numbers = pa.array(range(rows))
    texts = pc.binary_join_element_wise(pc.cast(numbers, pa.string()), "a,\nb", " ")
    table = pa.table({"t": texts, "n": numbers})
    pyarrow.csv.write_csv(table, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").stat().st_size > 2 * foreign._BLOCK_BYTES
    assert open_files(tmp_path / "t.csv")[0].read_all().equals(table)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("columns", [None, ["c", "a"]])
def test_every_format_is_recognised_and_streamed(
    tmp_path: Path, name: str, columns: list[str] | None
) -> None:
    path = write(tmp_path / name)
    reader, total = open_files(path, columns=columns)
    read = reader.read_all()
    expected = TABLE if columns is None else TABLE.select(columns)
    assert read.equals(expected)
    counted = name in ("t.parquet", "t.feather", "t.arrow", "t.nimble")
    assert total == (3 if counted else None)


def test_format_is_told_by_content_before_name(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet").rename(tmp_path / "t.csv")
    assert open_files(path).reader.read_all().equals(TABLE)
    (tmp_path / "t.bin").write_bytes(b"nothing")
    with pytest.raises(nb.InvalidArgumentError, match=r"cannot tell the format of .*t\.bin"):
        open_files(tmp_path / "t.bin")
    with pytest.raises(FileNotFoundError):
        open_files(tmp_path / "none.parquet")


def test_unknown_column_or_format_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet")
    with pytest.raises(nb.InvalidArgumentError, match="unknown column 'A'; did you mean 'a'"):
        open_files(path, columns=["A"])
    orc: Any = "orc"
    with pytest.raises(nb.InvalidArgumentError, match="got 'orc'"):
        open_files(path, format=orc)


@needs_core
@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.arrow"])
def test_convert_writes_clustered_file_and_reports_progress(tmp_path: Path, name: str) -> None:
    seen: list[tuple[int, int | None]] = []
    summary = nb.convert(
        write(tmp_path / name),
        tmp_path / "out.nimble",
        cluster_by="a",
        columns=["a", "c"],
        progress=lambda done, total: seen.append((done, total)),
    )
    assert summary.num_rows == 3
    assert nb.open(tmp_path / "out.nimble").to_table().to_pydict() == {
        "a": [1, 2, 3],
        "c": [1.5, 2.5, 0.5],
    }
    assert seen
    assert seen[-1][0] == 3
    if name in ("t.parquet", "t.nimble"):
        assert seen[-1][1] == 3


@needs_core
def test_failed_conversion_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(nb.NimbleError):
        nb.convert(
            write(tmp_path / "t.parquet"), tmp_path / "o.nimble", cluster_by="a", presorted=True
        )
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us")),
        ("b", pa.bool_()),
    ]
)


def polars_cases() -> list[tuple[Any, str | None]]:
    pl = pytest.importorskip("polars")
    i, f, g, s = pl.col("i"), pl.col("f"), pl.col("g"), pl.col("s")
    return [
        (i > 3, "i > 3"),
        (pl.lit(3) >= i, "i <= 3"),
        ((i > 3) & (s == "a"), "i > 3 and s == 'a'"),
        ((i == 3) | (i == 4), "i in (3, 4)"),
        (i.is_in([1, 2]), "i in (1, 2)"),
        (s.is_in(["a"]), "s in ('a')"),
        (i.is_between(1, 5, closed="left"), "i >= 1 and i < 5"),
        (s.str.starts_with("ab"), "s starts with 'ab'"),
        (i.is_null(), "i is null"),
        (i.is_not_null(), "i is not null"),
        (pl.col("d") > date(2020, 1, 1), "d > 2020-01-01"),
        (pl.col("t") <= datetime(2020, 1, 1), "t <= 2020-01-01 00:00:00"),
        (f < 1.5, "f < 1.5"),
        ((i > 3) & (i % 2 == 0), "i > 3"),
        # Polars puts NaN above all numbers and equal to itself, as SQL does.
        (f > 1.5, "f > 1.5"),
        (f != 1.5, "f != 1.5"),
        (f == float("nan"), None),  # which JSON does not have
        # It compares mixed types as floats.
        (i > 1.5, None),
        (g < 0.1, None),
        ((i > 3) | (i % 2 == 0), None),
        (i.is_in([1, None], nulls_equal=True), None),
        (~(i > 3), None),
        (i + 1 > 3, None),
    ]


def test_polars_predicates_are_pushed_only_where_both_agree() -> None:
    cases = polars_cases()
    from nimblepy.interop.polars_expr import pushed_filter

    for predicate, expected in cases:
        pushed = pushed_filter(predicate, SCHEMA)
        shown = None if pushed is None else str(parse_filter(pushed, SCHEMA).node)
        assert shown == expected, str(predicate)


@needs_core
def test_scan_polars_equals_eager_frame(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    rows = 5000
    frame = pl.DataFrame(
        {
            "i": list(range(rows)),
            "f": [float("nan") if row % 7 == 0 else row / 3 for row in range(rows)],
            "s": [None if row % 5 == 0 else f"s{row % 100}" for row in range(rows)],
        }
    )
    nb.write(frame, tmp_path / "t.nimble", cluster_by="i")
    lazy = nb.scan_polars(tmp_path / "t.nimble")
    assert lazy.collect().equals(frame)
    for predicate in (
        pl.col("i") > 4990,
        pl.col("f") > 100.0,
        (pl.col("f") == float("nan")) & (pl.col("i") < 50),
        pl.col("s").is_in(["s1", "s2"]) & (pl.col("i") % 3 == 0),
        pl.col("s").is_null(),
    ):
        assert lazy.filter(predicate).collect().equals(frame.filter(predicate))
        # A column that only the predicate reads
        assert (
            lazy.filter(predicate).select("f").collect().equals(frame.filter(predicate).select("f"))
        )
    assert lazy.head(3).collect().equals(frame.head(3))
    limited = lazy.filter(pl.col("i") > 10).head(3).collect()
    assert limited.equals(frame.filter(pl.col("i") > 10).head(3))
