"""Conditions that are turned into values of a column, for the core to test on encoded data."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy.expr.filter import parse_filter
from nimblepy.expr.nodes import And, Opaque
from nimblepy.file import scan
from nimblepy.file.domain import settle
from nimblepy.file.few_values import answered_by_values

pytestmark = pytest.mark.sanitizer

SCHEMA = pa.schema(
    {"d": pa.date32(), "i": pa.int64(), "j": pa.int32(), "s": pa.string(), "b": pa.bool_()}
)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        (
            "year(d) = 1995 AND month(d) = 3",
            "d >= 1995-03-01 and d <= 1995-03-31",
        ),
        ("i BETWEEN 1 AND 9 AND i % 4 = 1", "i in (1, 5, 9)"),
        ("i IN (1, 2, 3, 9) AND i * i > 5", "i in (3, 9)"),
        ("i BETWEEN 1 AND 9 AND i * i < 0 AND b", "b == True and i in ()"),
        (
            "CASE WHEN s = 'x' THEN j ELSE 50 - j END > 48",
            "(s is not null and s == x and j > 48) or ((s is null or s != x) and j < 2)",
        ),
    ],
)
def test_what_is_known_of_a_condition(text: str, node: str) -> None:
    shown = str(settle(parse_filter(text, SCHEMA).node)).replace("'", "").replace('"', "")
    assert shown.startswith(node), shown


@pytest.mark.parametrize(
    "text",
    [
        "i > 5 AND i % 4 = 1",  # no end
        "i BETWEEN 1 AND 9 AND 10 // (i - 3) = CAST(s AS BIGINT)",  # of two columns
        "CASE WHEN s <> '' THEN CAST(s AS BIGINT) ELSE 0 END > 3",  # may fail
    ],
)
def test_what_is_not_known_is_asked_of_rows(text: str) -> None:
    node = settle(parse_filter(text, SCHEMA).node)
    parts = node.args if isinstance(node, And) else (node,)
    assert any(isinstance(part, Opaque) for part in parts)


def test_a_condition_that_fails_for_a_value_that_is_not_there(tmp_path: Path) -> None:
    nb.write({"d": [1, 2, 5]}, tmp_path / "a.nimble")
    text = "d BETWEEN 1 AND 5 AND CAST(CASE d WHEN 3 THEN 'x' ELSE '7' END AS INTEGER) = 7"
    with nb.open(tmp_path / "a.nimble") as file:
        assert file.count_rows(text) == 3


@pytest.fixture
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_MANY_ROWS", 1)


@pytest.mark.usefixtures("of_any_size")
def test_values_that_the_first_rows_do_not_have_are_asked(tmp_path: Path) -> None:
    first, last = ["AIR", "rail", None, "SHIP"] * 2000, ["Rail", "x", "RAIL", None] * 50
    table = pa.table({"mode": first + last, "n": range(len(first) + len(last))})
    nb.write(table, tmp_path / "a.nimble")
    with nb.open(tmp_path / "a.nimble") as file:
        node = parse_filter("upper(mode) = 'RAIL'", file.schema).node
        tested = answered_by_values(file._file.handle, node)
        assert str(tested) == "not (mode in ('AIR', 'SHIP')) and upper(mode) = 'RAIL'"
        for text in (
            "upper(mode) = 'RAIL'",
            "length(mode) = 1",
            "upper(mode) = 'RAIL' AND n % 2 = 1",
            "mode || 'x' IS NULL",
            "(mode || 'x' = 'xx') IS NOT FALSE",
        ):
            mask = parse_filter(text, table.schema).mask(table.combine_chunks().to_batches()[0])
            assert file.to_table(filter=text)["n"].equals(table.filter(mask)["n"]), text


@pytest.mark.usefixtures("of_any_size")
def test_zeros_of_either_sign_are_told_apart(tmp_path: Path) -> None:
    nb.write({"x": [0.0] * 3000 + [-0.0, 1.0]}, tmp_path / "a.nimble")
    with nb.open(tmp_path / "a.nimble") as file:
        assert file.count_rows("x::VARCHAR = '-0.0'") == 1


@pytest.mark.usefixtures("of_any_size")
def test_columns_of_many_values_and_of_other_types(tmp_path: Path) -> None:
    day = dt.date(2024, 1, 1)
    table = pa.table(
        {
            "many": [f"v{i}" for i in range(3000)],
            "day": pa.array([day + dt.timedelta(i % 3) for i in range(3000)], pa.date64()),
            "cat": pa.array([f"c{i % 4}" for i in range(3000)]).dictionary_encode(),
            "raw": pa.array([b"ab", b"cd", None] * 1000, pa.binary(2)),
        }
    )
    nb.write(table, tmp_path / "a.nimble")
    with nb.open(tmp_path / "a.nimble") as file:
        assert file.count_rows("upper(many) = 'V7'") == 1
        assert file.count_rows("dayofweek(day) = 1") == 1000
        assert file.count_rows("upper(cat) = 'C1' AND length(many) = 2") == 3
        assert file.count_rows("raw || raw = 'abab'::BLOB") == 1000


@pytest.mark.usefixtures("of_any_size")
@pytest.mark.parametrize(("last", "evaluated"), [("FOB", 0), ("Rail", 1001)])
def test_condition_is_evaluated_only_if_the_column_has_other_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str, evaluated: int
) -> None:
    asked: list[int] = []
    plain = scan.FilterColumns.mask

    def mask(self: scan.FilterColumns, batch: pa.RecordBatch) -> pa.BooleanArray:
        asked.append(batch.num_rows)
        return plain(self, batch)

    monkeypatch.setattr(scan.FilterColumns, "mask", mask)
    nb.write({"mode": ["AIR", "RAIL", "SHIP", "FOB"] * 1000 + [last]}, tmp_path / "a.nimble")
    with nb.open(tmp_path / "a.nimble") as file:
        for _ in range(2):
            assert file.count_rows("lower(mode) = 'rail'") == 1000 + (last == "Rail")
            assert sum(asked) == evaluated
            asked.clear()
