"""Values of CSV and JSON files are stored as their text says, or the error names the value."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import math
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nimblepy as nb
from nimblepy.input.foreign import open_files
from nimblepy.input.texts import inexact_message

PARIS = pa.timestamp("us", "Europe/Paris")
NAIVE = pa.timestamp("us")
PRICE = pa.decimal128(20, 2)


def load(
    folder: Path, kind: pa.DataType, files: Sequence[tuple[str, str]], *, cast: bool = False
) -> list[Any]:
    """The column ``a`` of files, given as (suffix, content), read as a type."""
    paths = []
    for number, (suffix, content) in enumerate(files):
        paths.append(folder / f"{number}.{suffix}")
        paths[-1].write_text(content)
    reader = open_files(paths, target=pa.schema({"a": kind}), cast=cast).reader
    table = reader.read_all()
    assert table.schema.field("a").type == kind
    return table["a"].to_pylist()  # type: ignore[no-any-return]


def moment(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-07-01T10:00:00Z", moment(2024, 7, 1, 10)),
        ("2024-07-01T10:00:00+05:00", moment(2024, 7, 1, 5)),
        ("2024-07-01T10:00:00.5Z", moment(2024, 7, 1, 10, 0, 0, 500_000)),
        ("2024-07-01T10:00:00", moment(2024, 7, 1, 8)),  # wall clock of the column
        ("2024-07-01", moment(2024, 6, 30, 22)),
    ],
)
def test_zones_are_kept(tmp_path: Path, text: str, expected: dt.datetime) -> None:
    for file in (("csv", f"a\n{text}\n"), ("jsonl", json.dumps({"a": text}))):
        assert load(tmp_path, PARIS, [file]) == [expected]


def test_a_zone_for_a_column_without_one_is_refused(tmp_path: Path) -> None:
    for file in (("csv", "a\n2024-07-01T10:00:00Z\n"), ("jsonl", '{"a":"2024-07-01T10:00:00Z"}')):
        with pytest.raises(nb.InvalidArgumentError, match="column 'a', row 0"):
            load(tmp_path, NAIVE, [file])
        assert load(tmp_path, NAIVE, [file], cast=True) == [dt.datetime(2024, 7, 1, 10)]


@pytest.mark.parametrize(
    ("kind", "files", "expected"),
    [
        (pa.int64(), [("csv", "a\n9007199254740993\n1.0\n")], [9007199254740993, 1]),
        (pa.int64(), [("csv", "a\n9007199254740993\n"), ("csv", "a\n1.0\n")], [2**53 + 1, 1]),
        (pa.int64(), [("jsonl", '{"a":9007199254740993}\n{"a":1.0}\n')], [2**53 + 1, 1]),
        (pa.int64(), [("csv", "a\n 5\n+6\n-0\n")], [5, 6, 0]),
        (PRICE, [("jsonl", '{"a":12345678901234567.89}')], [Decimal("12345678901234567.89")]),
        (
            PRICE,
            [("csv", "a\n12345678901234567.89\n"), ("jsonl", '{"a":1.5}')],
            [Decimal("12345678901234567.89"), Decimal("1.50")],
        ),
        (
            pa.float64(),
            [("csv", "a\ninf\n-Infinity\n1e308\n")],
            [float("inf"), -float("inf"), 1e308],
        ),
        (pa.string(), [("jsonl", '{"a":"2024-01-01"}')], ["2024-01-01"]),
        (pa.list_(pa.string()), [("jsonl", '{"a":["2024-01-01"]}')], [["2024-01-01"]]),
        (
            pa.string(),
            [("jsonl", '{"a":"2024-01-01"}'), ("jsonl", '{"a":"x"}')],
            ["2024-01-01", "x"],
        ),
        (pa.bool_(), [("csv", "a\n0\n1\ntrue\n")], [False, True, True]),
        (pa.map_(pa.string(), PRICE), [("jsonl", '{"a":{"x":0.1}}')], [[("x", Decimal("0.10"))]]),
        (
            NAIVE,
            [("jsonl", '{"a":"2024-01-01T00:00:00"}'), ("csv", "a\n2024-01-01\nNA\n")],
            [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1), None],
        ),
        (
            NAIVE,
            [("csv", "a\n2024-01-01\n"), ("csv", "a\n2024-01-01T00:00:00.5\n"), ("csv", "a\nNA\n")],
            [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 500_000), None],
        ),
        (
            pa.struct({"x": PRICE, "t": PARIS}),
            [("jsonl", '{"a":{"x":12345678901234567.89,"t":"2024-07-01T10:00:00Z"}}')],
            [{"x": Decimal("12345678901234567.89"), "t": moment(2024, 7, 1, 10)}],
        ),
    ],
)
def test_values_are_kept(
    tmp_path: Path, kind: pa.DataType, files: list[tuple[str, str]], expected: list[Any]
) -> None:
    assert load(tmp_path, kind, files) == expected


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), PRICE, pa.bool_()),
        *(pa.date32(), pa.time64("us"), NAIVE, PARIS, pa.uuid()),
    ],
    ids=str,
)
def test_a_column_without_values_is_null(tmp_path: Path, kind: pa.DataType) -> None:
    text = 'id,a\n1,NA\n2,""\n3,\n4,NULL\n5,None\n'
    assert load(tmp_path, kind, [("csv", text)]) == [None] * 5


@pytest.mark.parametrize(
    ("kind", "file", "message"),
    [
        (pa.int32(), ("csv", "a\n2\nabc\n"), "row 1: 'abc' is not a value of int32"),
        (pa.int32(), ("csv", "a\n1.5\n"), "row 0: 1.5 .*cast=True to truncate"),
        (pa.int8(), ("csv", "a\n300\n"), "row 0: 300"),
        (pa.int64(), ("csv", "a\nnan\n"), "row 0: 'nan' is not a value of int64"),
        (pa.float32(), ("csv", "a\n1e40\n"), "row 0: '1e40' is out of range of float"),
        (pa.float64(), ("csv", "a\n1e400\n"), "row 0: '1e400' is out of range of double"),
        (pa.float32(), ("jsonl", '{"a":1e40}'), "out of range of float"),
        (pa.float64(), ("jsonl", '{"a":1e400}'), "too big"),
        (pa.decimal128(12, 2), ("csv", "a\n12345678901\n"), "row 0: 12345678901 does not fit"),
        (pa.decimal128(12, 2), ("csv", "a\n1.255\n"), "row 0: 1.255 .*cast=True to round"),
        (pa.bool_(), ("csv", "a\nyes\n"), "row 0: 'yes'"),
        (pa.date32(), ("csv", "a\n2024-02-30\n"), "row 0: '2024-02-30'"),
        (NAIVE, ("csv", "a\n2024-01-01T00:00:00.123456789\n"), "row 0"),
        (pa.int64(), ("jsonl", '{"a":1}\n{"a":1.5}\n'), "row 1: 1.5 .*cast=True to truncate"),
        (PRICE, ("jsonl", '{"a":0.5}\n{"a":[]}\n'), "a"),
        (pa.int64(), ("json", '[{"a":1}]'), "begins with a list"),
    ],
)
def test_errors_name_the_value(
    tmp_path: Path, kind: pa.DataType, file: tuple[str, str], message: str
) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=message):
        load(tmp_path, kind, [file])


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (pa.decimal128(12, 2), "1e-999999999", "does not fit"),  # Arrow's cast crashed
        (pa.decimal128(12, 2), "340282366920938463463374607431768211956", "does not fit"),
        (pa.decimal128(38, 0), "4.424e40", "does not fit"),
        (pa.decimal128(12, 2), "9" * 100_000, "does not fit"),
        (pa.decimal128(12, 2), "1e999999999", "does not fit"),
        (pa.decimal128(12, 2), "1_000", "is not a value"),
        (pa.int32(), "0xFFFFFFFF", "is not a value"),
        (pa.int64(), "0x10", "is not a value"),
        (pa.int64(), "1_000", "is not a value"),
        (pa.int64(), "9223372036854775808", "does not fit"),
        (pa.uint8(), "-1", "does not fit"),
        (PARIS, "2024-03-31T02:30:00", "clocks skip it"),
        (pa.time64("us"), "10:00:00.1234567", "not a value"),
    ],
)
def test_numbers_and_times_that_arrow_reads_wrongly(
    tmp_path: Path, kind: pa.DataType, text: str, message: str
) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=f"row 0: .*{message}"):
        load(tmp_path, kind, [("csv", f"a\n{text}\n")])


def test_zeros_with_large_exponents(tmp_path: Path) -> None:
    text = "a\n0e-999999999\n0e999\n-0\n"
    assert load(tmp_path, PRICE, [("csv", text)]) == [Decimal(0)] * 3
    assert load(tmp_path, pa.decimal128(38, 38), [("csv", "a\n1e-38\n")]) == [Decimal("1e-38")]


def test_cast_keeps_the_wall_clock_of_the_text(tmp_path: Path) -> None:
    text = "a\n2024-01-01T10:00:00+02:00\n2024-01-01T10:00:00\n2024-01-01\n"
    clock = dt.datetime(2024, 1, 1, 10)
    assert load(tmp_path, NAIVE, [("csv", text)], cast=True) == [
        clock,
        clock,
        dt.datetime(2024, 1, 1),
    ]


def test_columns_of_paths_have_the_types_of_the_table(tmp_path: Path) -> None:
    for code in ("12", "AB"):
        (tmp_path / f"code={code}").mkdir()
        (tmp_path / f"code={code}" / "a.csv").write_text("a\n1\n")
    schema = pa.schema({"a": pa.int64(), "code": pa.string()})
    read = open_files(tmp_path, target=schema)[0].read_all()
    assert read["code"].to_pylist() == ["12", "AB"]


def test_late_columns_of_json_are_not_lost(tmp_path: Path) -> None:
    lines = ['{"a":1.5}\n'] * 20_000 + ['{"a":1,"new":2}\n']
    (tmp_path / "a.jsonl").write_text("".join(lines))
    read = open_files(tmp_path / "a.jsonl", target=pa.schema({"a": PRICE}))[0].read_all()
    assert read["new"].to_pylist()[-1] == 2


def test_later_values_of_json_decide_the_type(tmp_path: Path) -> None:
    start = json.dumps({"p": "x" * 1000, "a": 1}) + "\n"
    (tmp_path / "a.jsonl").write_text(start * 20_000 + '{"a":1.5,"b":2}\n')
    schema = pa.schema({"a": pa.float64(), "b": pa.int64(), "p": pa.string()})
    read = open_files(tmp_path / "a.jsonl", target=schema)[0].read_all()
    assert (read["a"][-1].as_py(), read["b"][-1].as_py()) == (1.5, 2)


def test_cast_rounds_as_for_python_values(tmp_path: Path) -> None:
    kind = pa.decimal128(12, 2)
    assert load(tmp_path, kind, [("csv", "a\n1.255\n2.665\n")], cast=True) == [
        Decimal("1.26"),
        Decimal("2.66"),
    ]
    assert load(tmp_path, pa.int32(), [("csv", "a\n1.7\n-1.7\n")], cast=True) == [1, -1]
    finer = "2024-01-01T00:00:00.123456789"
    cut = dt.datetime(2024, 1, 1, 0, 0, 0, 123456)
    assert load(tmp_path, NAIVE, [("csv", f"a\n{finer}\n")], cast=True) == [cut]
    assert load(tmp_path, pa.date32(), [("csv", f"a\n{finer}\n")], cast=True) == [cut.date()]


def test_json_without_types_keeps_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"t":"2024-01-01T00:00:00Z","l":["2024-01-01"]}\n')
    read = open_files(tmp_path / "a.jsonl")[0].read_all()
    assert read.to_pylist() == [{"t": "2024-01-01T00:00:00Z", "l": ["2024-01-01"]}]


def test_random_numbers_are_what_python_reads(tmp_path: Path) -> None:
    rng = random.Random(1)

    def number() -> str:
        digits = str(rng.randrange(10 ** rng.randrange(1, 19)))
        sign = rng.choice(["", "-"])
        return sign + digits + rng.choice(["", ".5", ".25", f"e{rng.randrange(-3, 4)}", ".0"])

    texts = [number() for _ in range(3000)]
    exact = [Decimal(text) for text in texts]
    csv, lines = "a\n" + "\n".join(texts) + "\n", "".join(f'{{"a":{text}}}\n' for text in texts)
    for file in (("csv", csv), ("jsonl", lines)):
        assert load(tmp_path, pa.float64(), [file]) == [float(text) for text in texts]
        assert load(tmp_path, pa.decimal128(38, 8), [file]) == exact
    whole = [text for text, number in zip(texts, exact, strict=True) if number == int(number)]
    csv, lines = "a\n" + "\n".join(whole) + "\n", "".join(f'{{"a":{text}}}\n' for text in whole)
    for file in (("csv", csv), ("jsonl", lines)):
        fitting = [text for text in whole if abs(Decimal(text)) < 2**63]
        if len(fitting) == len(whole):
            assert load(tmp_path, pa.int64(), [file]) == [int(Decimal(text)) for text in whole]


@pytest.mark.parametrize("text", ["12.50", " 12.5 ", "+12.500", "1250e-2"])
def test_text_of_decimals(tmp_path: Path, text: str) -> None:
    # Only CSV took it. JSON, Python rows and Arrow texts were refused without cast=True.
    for file in (("csv", f"a\n{text}\n"), ("jsonl", json.dumps({"a": text}))):
        assert load(tmp_path, PRICE, [file]) == [Decimal("12.50")]
    lake = nb.connect(tmp_path / "lake")
    table = lake.create_table("a.b", pa.schema([("a", PRICE), ("l", pa.list_(PRICE))]))
    wanted = Decimal("12.50")
    for rows, column in (
        ([{"a": text}, {"a": Decimal("0.1")}, {"a": None}], [wanted, Decimal("0.10"), None]),
        ([{"a": None}, {"a": text}], [None, wanted]),
        (pa.table({"a": pa.array([text, None]).dictionary_encode()}), [wanted, None]),
        (pa.table({"a": pa.array([text], pa.large_string())}), [wanted]),
    ):
        table.overwrite(rows)
        assert table.to_table()["a"].to_pylist() == column
    table.overwrite([{"l": [text, None]}])
    assert table.to_table()["l"].to_pylist() == [[wanted, None]]


def test_random_text_of_decimals(tmp_path: Path) -> None:
    rng = random.Random(4)
    table = nb.connect(tmp_path / "lake").create_table("a.b", pa.schema([("a", PRICE)]))
    for _ in range(100):
        number = Decimal(rng.randrange(-(10 ** rng.randrange(1, 22)), 10**8)).scaleb(
            -rng.randrange(5)
        )
        fits = abs(number) < 10**18 and number == round(number, 2)
        for rows in ([{"a": str(number)}], pa.table({"a": [str(number)]})):
            if fits:
                table.overwrite(rows)
                assert table.to_table()["a"].to_pylist() == [number]
                continue
            with pytest.raises(nb.InvalidArgumentError, match="column 'a', row 0"):
                table.overwrite(rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("12.505", "row 0: 12.505 .*cast=True to round it"),
        ("x", "row 0: 'x' is not a value"),
        ("", "row 0: '' is not a value"),
        ("nan", "row 0: 'nan' is not a value"),
        ("1e30", "row 0: 1e30 does not fit"),
        ("1_000", "row 0: '1_000' is not a value"),
    ],
)
def test_text_that_is_no_decimal_of_the_column(tmp_path: Path, text: str, message: str) -> None:
    table = nb.connect(tmp_path / "lake").create_table("a.b", pa.schema([("a", PRICE)]))
    (tmp_path / "a.jsonl").write_text(json.dumps({"a": text}))
    mixed = [{"a": text}, {"a": Decimal(1)}]
    for rows in ([{"a": text}], mixed, pa.table({"a": [text]}), tmp_path / "a.jsonl"):
        with pytest.raises(
            nb.InvalidArgumentError,
            match=f"column 'a', {message}" if rows is not mixed else "row 0",
        ):
            table.append(rows)  # type: ignore[arg-type]
    if "cast" in message:  # as it rounds numbers
        table.append([{"a": text}, {"a": "-12.515"}], cast=True)
        assert table.to_table()["a"].to_pylist() == [Decimal("12.50"), Decimal("-12.52")]


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        (pa.int64(), '{"a":"1"}', "column 'a' is string; the table has int64; .*row 0 has '1'"),
        (pa.int64(), '{"a":null}\n{"a":"1"}', "row 1 has '1'"),
        (pa.int64(), '{"a":1}\n{"a":"x"}', "column 'a', row 1: 'x'"),
        (pa.string(), '{"a":1}', "column 'a' is int64; the table has string; .*row 0 has 1"),
        (pa.float64(), '{"a":"1.5"}', "column 'a'"),
        (pa.float64(), '{"a":1}\n{"a":"1.5"}', "column 'a', row 1: '1.5'"),
        (pa.float64(), '{"a":1e400}\n', "too big"),
        (pa.float64(), '{"a":Infinity}\n', "an infinity is the text 'inf'"),
    ],
)
def test_errors_of_types_name_the_file(
    tmp_path: Path, kind: pa.DataType, content: str, message: str
) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=rf"0\.jsonl: .*{message}"):
        load(tmp_path, kind, [("jsonl", content)])


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("a\né\n".encode("latin-1"))
    table = nb.connect(tmp_path / "lake").create_table("a.b", pa.schema([("a", pa.string())]))
    for cast in (False, True):
        with pytest.raises(
            nb.InvalidArgumentError, match=r"column 'a': .*encode the file as UTF-8$"
        ):
            table.append(tmp_path / "a.csv", cast=cast)


@pytest.mark.parametrize("by", ["pyarrow", "rows"])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_integers_of_json_mean_the_nearest_float(
    tmp_path: Path, kind: pa.DataType, by: str
) -> None:
    """They were refused unless they were exact; CSV stored the nearest."""
    texts = ["9223372036854775807", "-9223372036854775807", "16777217", "9007199254740993", "3"]
    texts += ["12345678901234567890123", "0"]
    width = np.float32 if kind == pa.float32() else np.float64
    wanted = [float(width(float(text))) for text in texts]
    lines = [f'{{"a":{text}}}\n' for text in texts]
    if by == "rows":  # a text in a column of numbers
        lines, wanted = [*lines, '{"a":"inf"}'], [*wanted, math.inf]
    assert load(tmp_path, kind, [("jsonl", "".join(lines))]) == wanted
    csv = "\n".join(["a", *texts]) + "\n"
    assert load(tmp_path, kind, [("csv", csv)]) == wanted[: len(texts)]
    nested = "".join(f'{{"a":{{"x":[{text}]}}}}\n' for text in texts)
    inside = pa.struct({"x": pa.list_(kind)})
    assert load(tmp_path, inside, [("jsonl", nested)]) == [
        {"x": [value]} for value in wanted[: len(texts)]
    ]
    large = "1" + "0" * 400
    for content in (f'{{"a":{large}}}\n', f'{{"a":{large}}}\n{{"a":"inf"}}\n'):
        with pytest.raises(nb.InvalidArgumentError, match=r"out of range|too big"):
            load(tmp_path, kind, [("jsonl", content)])


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_floats_that_json_does_not_have(tmp_path: Path, kind: pa.DataType) -> None:
    for texts in (["1.5", '"inf"', "2"], ['"-inf"', '"inf"', "null"], ["1.5", "null", '"-inf"']):
        content = "".join(f'{{"a":{text}}}\n' for text in texts)
        wanted = [float(text.strip('"')) if text != "null" else None for text in texts]
        assert load(tmp_path, kind, [("jsonl", content)]) == wanted
    (value,) = load(tmp_path, kind, [("jsonl", '{"a":"nan"}')])
    assert value != value


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(2), pa.large_binary()], ids=str)
def test_bytes_are_hexadecimal(tmp_path: Path, kind: pa.DataType) -> None:
    # With cast=True, the hexadecimal text itself was stored.
    for cast in (False, True):
        for file in (("csv", "a\n61FF\n"), ("jsonl", '{"a":"61ff"}')):
            assert load(tmp_path, kind, [file], cast=cast) == [b"a\xff"]
        for text in ("hello", "6", "61 ff", "é"):
            for file in (("csv", f"a\n{text}\n"), ("jsonl", json.dumps({"a": text}))):
                with pytest.raises(nb.InvalidArgumentError, match=r"row 0: .*is not hexadecimal"):
                    load(tmp_path, kind, [file], cast=cast)


def test_many_batches_count_rows(tmp_path: Path) -> None:
    lines = [f'{{"a":{row}.5}}\n' for row in range(40_000)]
    lines[39_000] = '{"a":0.123}\n'
    with pytest.raises(nb.InvalidArgumentError, match=r"row 39000: 0\.123"):
        load(tmp_path, PRICE, [("jsonl", "".join(lines))])


def test_frames_of_objects_alone_are_stored(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    lake = nb.connect(tmp_path)
    table = lake.create_table("a.b", pa.schema({"d": pa.date32(), "f": pa.bool_()}))
    table.append(pd.DataFrame({"d": [dt.date(2024, 1, 1)], "f": [None]}))
    table.append(pd.DataFrame({"f": [True, None]}))
    assert table.num_rows == 3


@pytest.fixture
def table(tmp_path: Path) -> nb.Table:
    schema = pa.schema({"id": pa.int64(), "f": pa.float64(), "s": pa.string(), "d": pa.date32()})
    return nb.connect(tmp_path / "lake").create_table("a.b", schema, primary_key="id")


def test_a_first_row_of_none_is_refused(table: nb.Table) -> None:
    # It ended the rows without an error, and `overwrite` emptied the table.
    table.append([{"id": 1}])
    for change in (table.append, table.upsert, table.overwrite):
        with pytest.raises(nb.InvalidArgumentError, match="NoneType"):
            change([None, {"id": 3}])
    assert table.refresh().num_rows == 1


def test_columns_of_nan_are_null_in_frames(table: nb.Table) -> None:
    pd = pytest.importorskip("pandas")
    nan = float("nan")
    table.append(pd.DataFrame({"id": [1], "f": [nan], "s": [nan], "d": [nan]}))
    assert table.get(1) == {"id": 1, "f": None, "s": None, "d": None}
    assert table.append(pd.DataFrame({"id": [], "s": []})).rows_inserted == 0


def test_frames_in_pieces_have_the_types_of_the_table(table: nb.Table) -> None:
    pd = pytest.importorskip("pandas")
    frames = [
        pd.DataFrame({"id": [1, 2], "f": [5, 6], "s": ["a", None]}),
        pd.DataFrame({"id": [3], "f": [7.5], "s": [float("nan")]}),
    ]
    table.append(iter(frames))
    assert table.to_table()["f"].to_pylist() == [5.0, 6.0, 7.5]


def test_rows_are_counted_over_all_pieces(table: nb.Table) -> None:
    rows = ({"id": row, "f": "x" if row == 140_000 else row} for row in range(150_000))
    with pytest.raises(nb.InvalidArgumentError, match="row 140000"):
        table.append(rows)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (["00777", "12345", ""], pa.string()),
        (["1", "-01", "2"], pa.string()),
        (["0", "-0", "10"], pa.int64()),
        (["0.5", "1", "2"], pa.float64()),
        (["+5", "1", "2"], pa.float64()),
        (["9223372036854775808", "1", ""], pa.string()),
        (["9223372036854775807", "-9223372036854775808", ""], pa.int64()),
        (["9007199254740993", "0.5", ""], pa.string()),
        (["-9007199254740993", "1e3", "2"], pa.string()),
        (["12345678901234567891", "0.5", "nan"], pa.string()),
        (["9007199254740992", "0.5", "100000000000000000000000"], pa.float64()),
        (["1152921504606847000", "1.5e300", "9007199254740993.0"], pa.float64()),
    ],
)
def test_numbers_with_leading_zeros_are_text(tmp_path: Path, column: Any, kind: Any) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["n,x", *(f"1,{text}" for text in column)]))
    nb.write(path, tmp_path / "a.nimble")
    read = nb.open(tmp_path / "a.nimble").to_table()
    assert read.schema.types == [pa.int64(), kind]
    if kind == pa.string():
        assert read["x"].to_pylist() == [text or None for text in column]


@pytest.mark.parametrize("code", ["00777", "123456789012345678901"])
@pytest.mark.parametrize("first", ["777", "00777", "0.5", ""])
def test_codes_in_one_of_two_files_are_text_in_both(tmp_path: Path, first: str, code: str) -> None:
    (tmp_path / "a.csv").write_text(f"x,y\n{first},1\n")
    (tmp_path / "b.csv").write_text(f"x,y\n{code},1\n")
    nb.write(str(tmp_path / "*.csv"), tmp_path / "a.nimble")
    read = nb.open(tmp_path / "a.nimble").to_table()
    assert read.schema.types == [pa.string(), pa.int64()]
    assert read["x"].to_pylist() == [first or None, code]


def test_codes_beside_numbers_of_another_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n00777\n")
    pq.write_table(pa.table({"x": [777]}), tmp_path / "b.parquet")
    paths = [tmp_path / "a.csv", tmp_path / "b.parquet"]
    with pytest.raises(nb.InvalidArgumentError, match="create the table with a schema"):
        nb.write(paths, tmp_path / "a.nimble")


@pytest.mark.parametrize("other", [False, True])
def test_a_leading_zero_after_the_first_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: bool
) -> None:
    monkeypatch.setattr("nimblepy.input.foreign._BLOCK_BYTES", 1 << 10)
    (tmp_path / "a.csv").write_text("x\n" + "1\n" * 1000 + "NA\n007\n")
    (tmp_path / "b.csv").write_text("x\n5\n")
    paths = [str(tmp_path / f"{name}.csv") for name in ("a", "b")[: 1 + other]]
    with pytest.raises(nb.InvalidArgumentError, match=r"a\.csv: column 'x', row 1001: '007' has a"):
        nb.write(paths, tmp_path / "a.nimble")
    schema = pa.schema([("x", pa.int64())])
    table = nb.connect(tmp_path / "lake").create_table("n.t", schema)
    table.append(paths)
    assert table.to_table()["x"].to_pylist()[1000:1002] == [None, 7]


@pytest.mark.parametrize(
    ("end", "closed"),
    [
        ('2,"y\n3,z\n', False),
        ('2,"y', False),
        ('2,"a ""b"" c', False),
        ('2,"', False),
        ('2,"""', False),
        ('2,"y"', True),
        ('2,"y\n"\n', True),
        ('2,"a ""b"""', True),
        ('2,""""', True),
        ('2,""', True),
        ('2,""abc', True),
        ('2,"a,"', True),
        ("2,5' 3\"", True),
        ("2,y\n", True),
    ],
)
def test_a_quote_that_is_not_closed_is_an_error(tmp_path: Path, end: str, closed: bool) -> None:
    content = f"n,x\n1,a\n{end}".encode()
    for name, data in (("a.csv", content), ("a.csv.gz", gzip.compress(content))):
        path = tmp_path / name
        path.write_bytes(data)
        if closed:
            assert nb.write(path, tmp_path / "a.nimble").num_rows == 2
            continue
        with pytest.raises(nb.InvalidArgumentError, match=f"{name}: the quote of the last field"):
            nb.write(path, tmp_path / "a.nimble")
        assert not (tmp_path / "a.nimble").exists()


@pytest.mark.parametrize("compressed", [False, True])
def test_a_quote_that_opens_in_an_earlier_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compressed: bool
) -> None:
    monkeypatch.setattr("nimblepy.input.foreign._BLOCK_BYTES", 1 << 10)
    rows = "n,x\n" + "1,a\n" * 1000
    for end, is_closed in (("y" * 900, False), ("y" * 900 + '"', True)):
        content = f'{rows}2,"{end}'.encode()
        path = tmp_path / ("a.csv.gz" if compressed else "a.csv")
        path.write_bytes(gzip.compress(content) if compressed else content)
        if is_closed:
            assert nb.write(path, tmp_path / "a.nimble").num_rows == 1001
            continue
        with pytest.raises(nb.InvalidArgumentError, match="the quote of the last field"):
            nb.write(path, tmp_path / "a.nimble")


@pytest.mark.parametrize("other", ["1", "0.5", None])
def test_long_integers_of_json_are_no_floats(tmp_path: Path, other: Any) -> None:
    # Two ids that differ in the last digits became one.
    ids = [12345678901234567890, 12345678901234567891]
    (tmp_path / "a.jsonl").write_text("".join(f'{{"id": {i}, "x": 1e30}}\n' for i in ids))
    (tmp_path / "d.jsonl").write_text('{"é": 12345678901234567890}\n')
    with pytest.raises(nb.InvalidArgumentError, match="column 'é'"):
        nb.write(tmp_path / "d.jsonl", tmp_path / "a.nimble")
    paths = [str(tmp_path / "a.jsonl")]
    if other is not None:
        (tmp_path / "b.jsonl").write_text(f'{{"x":2,"id":{other}}}\n')
        paths.append(str(tmp_path / "b.jsonl"))
    with pytest.raises(
        nb.InvalidArgumentError, match=r"a\.jsonl: column 'id': 12345678901234567890"
    ):
        nb.write(paths, tmp_path / "a.nimble")
    schema = pa.schema([("id", pa.decimal128(20, 0)), ("x", pa.float64())])
    assert open_files(paths[0], target=schema).reader.read_all()["id"].to_pylist() == ids


LONG = "12345678901234567891"


@pytest.mark.parametrize(
    ("lines", "column"),
    [
        ('{"s": {"a": {"b": %s}}}', "s.a.b"),
        ('{"l": [0.5, %s]}', "l"),
        ('{"l": [[{"a": 0.5}], [{"a": %s}, {"a": null}]]}', "l.a"),
        ('{"l": null}\n{"l": []}\n{"l": [{"a": %s}]}', "l.a"),
        ('{"x": 0.5}\n{"x": %s}', "x"),
        ('{"s": {"x": "%s", "a": 1e300, "b": %s}}', "s.b"),
    ],
)
@pytest.mark.parametrize("integer", [LONG, "9223372036854775808", "9007199254740993"])
def test_integers_of_json_are_no_floats_at_any_depth(
    tmp_path: Path, lines: str, column: str, integer: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines.replace("%s", integer) + "\n")
    if integer == "9007199254740993" and "0.5" not in lines:  # a column of int64
        nb.write(path, tmp_path / "a.nimble")
        return
    why = "does not fit int64;" if integer == str(2**63) else ".* its last digits;"
    expected = f"column '{column}': {integer} {why}"
    with pytest.raises(nb.InvalidArgumentError, match=expected):
        nb.write(path, tmp_path / "a.nimble")


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1.5}\n{"a":1e16}\n{"a":\n9007199254740993}\n',
        '{"a":1e16}\n{"a":1.5}{"a":9007199254740993}\n',
        '{"a":1.5} {"a":9007199254740993} {"a":1e16}',
        '{\n "a":\t1e16}\n\r\n {\n"b":{"a":1},\n"a":\n9007199254740993\n}',
        '{"a":1e16, "l":[{"a":1}\n,{"a":2}\n]\n,"a2":{}\n}\n{"s":"} {","a":9007199254740993}\n',
        '\ufeff{"a":9007199254740993}\n{"a":1e16}\n',
    ],
)
@pytest.mark.parametrize("block", [1, 3, 1 << 20])
def test_rows_of_several_lines_and_lines_of_several_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, block: int
) -> None:
    monkeypatch.setattr("nimblepy.input.foreign._BLOCK_BYTES", block)
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(nb.InvalidArgumentError, match="column 'a': 9007199254740993 is in a col"):
        nb.write(path, tmp_path / "a.nimble")
    path.write_text(text.replace("9007199254740993", "9007199254740994"))
    nb.write(path, tmp_path / "a.nimble")


@pytest.mark.parametrize("seed", range(10))
def test_integers_are_found_in_any_layout_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr("nimblepy.input.foreign._BLOCK_BYTES", rng.choice([1, 10, 100, 1000]))
    rows: list[Any] = [{"a": 1e16, "id": 1, "l": [{"a": 1}], "s": "{}"}]
    for number in range(30):
        text = rng.choice(["} {", "\\", '"', "9007199254740993", "}\n{"])
        rows.append({"a": 0.5, "id": 2**62 + number, "l": [{"a": 1}, {"a": 2**60}], "s": text})
    bad = rng.random() < 0.5
    rows[rng.randrange(1, 31)]["a"] = 2**53 + 1 if bad else 2**53 + 2
    path = tmp_path / "a.jsonl"
    path.write_text(
        "".join(
            json.dumps(row, indent=rng.choice([None, None, 0, 2]))
            + rng.choice(["\n", " ", "", "\n\n"])
            for row in rows
        )
    )
    if bad:
        with pytest.raises(nb.InvalidArgumentError, match="column 'a': 9007199254740993 is in"):
            nb.write(path, tmp_path / "a.nimble")
    else:
        nb.write(path, tmp_path / "a.nimble")
        read = nb.open(tmp_path / "a.nimble").to_table()
        assert read["id"].to_pylist() == [row["id"] for row in rows]


def test_an_object_on_several_lines_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{\n "id": 12345678901234567,\n "x": 1e17\n}\n')
    nb.write(path, tmp_path / "a.nimble")
    read = nb.open(tmp_path / "a.nimble").to_table().to_pylist()
    assert read == [{"id": 12345678901234567, "x": 1e17}]


def test_messages_of_integers_say_what_a_column_can_store() -> None:
    start, end = "create the table with a schema, for example", "does not fit int64"
    assert inexact_message(str(10**22)) == (f"{10**22} {end}; {start} decimal(23, 0) or string")
    assert inexact_message("-" + LONG).startswith(f"-{LONG} {end}; floats lose its last digits;")
    message = inexact_message("9" * 5000)
    assert message.startswith("9" * 40 + f"... (5000 digits) {end}; floats lose")
    assert message.endswith(f"{start} string")


def test_large_floats_of_json_are_floats(tmp_path: Path) -> None:
    values = [1e300, 9007199254740994, 1152921504606847000, 0.1234567890123456789, -1e16]
    lines = [json.dumps({"x": v, "s": {"l": [v]}, "t": LONG}) + "\n" for v in values]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    nb.write(tmp_path / "a.jsonl", tmp_path / "a.nimble")
    read = nb.open(tmp_path / "a.nimble").to_table()
    floats = [float(value) for value in values]
    assert read["x"].to_pylist() == floats
    assert [row["l"] for row in read["s"].to_pylist()] == [[value] for value in floats]


@pytest.mark.parametrize("other", [False, True])
def test_a_long_integer_after_the_first_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: bool
) -> None:
    monkeypatch.setattr("nimblepy.input.foreign._BLOCK_BYTES", 1 << 10)
    (tmp_path / "a.csv").write_text("x\n" + "1.5\n" * 1000 + "1e300\n9007199254740993\n")
    (tmp_path / "b.csv").write_text("x\n5\n")
    paths = [str(tmp_path / f"{name}.csv") for name in ("a", "b")[: 1 + other]]
    with pytest.raises(
        nb.InvalidArgumentError, match=r"a\.csv: column 'x', row 1001: '?9007199254740993"
    ):
        nb.write(paths, tmp_path / "a.nimble")
    schema = pa.schema([("x", pa.float64())])
    assert open_files(paths, target=schema).reader.read_all()["x"][1001].as_py() == 2.0**53


@pytest.mark.parametrize("value", [70_000, -70_000, 65_520])
def test_integers_beyond_half_floats_are_refused(tmp_path: Path, value: int) -> None:
    schema = pa.schema([("x", pa.float16())])
    (tmp_path / "a.json").write_text(f'{{"x": {value}}}\n')
    with pytest.raises(nb.InvalidArgumentError, match=f"{value} does not fit halffloat"):
        open_files(str(tmp_path / "a.json"), target=schema).reader.read_all()

    def write(values: list[int | None]) -> None:
        with nb.Writer(tmp_path / "a.nimble", schema, cast=True) as writer:
            writer.write(pa.table({"x": values}))

    write([1, 2048, None])
    assert nb.open(tmp_path / "a.nimble").to_table()["x"].to_pylist() == [1, 2048, None]
    with pytest.raises(nb.InvalidArgumentError, match=f"{value} does not fit halffloat"):
        write([1, value])
