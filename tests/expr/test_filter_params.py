"""Parameters of filters, and rows of values for paging."""

from __future__ import annotations

import datetime
import itertools
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

import nimblepy as nb
from nimblepy.cli.main import app

pytestmark = pytest.mark.model

STAMP = datetime.datetime(2024, 1, 1)
TABLE = pa.table(
    {
        "user": pa.array([i // 100 for i in range(10_000)], pa.int64()),
        "ts": pa.array([STAMP + datetime.timedelta(hours=i % 100) for i in range(10_000)],
                       pa.timestamp("us")),
        "s": pa.array([f"s{i % 7}" for i in range(10_000)]),
        "d": pa.array([Decimal(i).scaleb(-2) for i in range(10_000)], pa.decimal128(12, 2)),
        "id": pa.array(range(10_000), pa.int64()),
    }
)  # fmt: skip
OPTIONS = nb.WriteOptions(stripe_rows=1000, zone_rows=100)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("params") / "t.nimble"
    nb.write(TABLE, found, cluster_by=["user", "ts"], options=OPTIONS)
    return found


@pytest.fixture(scope="module")
def file(path: Path) -> nb.File:
    return nb.open(path)


@pytest.mark.parametrize(
    ("text", "params", "same"),
    [
        ("id = $k AND s = $s", {"k": 8, "s": "s1"}, "id = 8 AND s = 's1'"),
        ("id = ? OR id = ?", [3, 5], "id = 3 OR id = 5"),
        ("id = $2 OR id = $1", (3, 5), "id = 5 OR id = 3"),
        ("ts = $t", {"t": STAMP}, "ts = TIMESTAMP '2024-01-01 00:00:00'"),
        ("ts = $t", {"t": "2024-01-01"}, "ts = '2024-01-01'"),
        ("ts = $t", {"t": np.datetime64("2024-01-01T00:00:00")}, "ts = '2024-01-01'"),
        ("CAST(ts AS DATE) = $t", {"t": datetime.date(2024, 1, 2)}, "ts::DATE = '2024-01-02'"),
        ("d = $d", {"d": Decimal("-12345678901234567890123456789.5")}, "FALSE"),
        ("d = $d", {"d": Decimal("12.34")}, "d = 12.34"),
        ("id IN $ids", {"ids": [1, 2, 2, 99_999]}, "id IN (1, 2)"),
        ("s IN $all", {"all": ("s1", "s2")}, "s IN ('s1', 's2')"),
        ("id = $i", {"i": np.int8(3)}, "id = 3"),
        ("id = $i", {"i": pa.scalar(3, pa.uint16())}, "id = 3"),
        ("id < $i", {"i": None}, "NULL"),
        ("s = $s", {"s": "it's; --"}, "s = 'it''s; --'"),
        ("ts < $t + $by", {"t": STAMP, "by": datetime.timedelta(hours=2)},
         "ts < TIMESTAMP '2024-01-01 02:00:00'"),
    ],
)  # fmt: skip
def test_a_parameter_is_its_value(file: nb.File, text: str, params: Any, same: str) -> None:
    expected = file.to_table(["id"], same)
    assert file.to_table(["id"], text, params) == expected
    assert file.scan(["id"], filter=text, params=params).to_table() == expected
    assert file.count_rows(text, params) == expected.num_rows
    assert file.head(2, ["id"], text, params) == expected.slice(0, 2)
    assert str(file.explain(filter=text, params=params)).count("\n") > 0


@pytest.mark.parametrize(
    ("text", "params", "message"),
    [
        ("id = $k", None, "a parameter without a value"),
        ("id = $k", {"j": 1}, "params has no 'k'; it has j"),
        ("id = $k", {"k": 1, "j": 1}, "j not used"),
        ("id = ?", [], "params has 0 values"),
        ("id = ?", [1, 2], "2 not used"),
        ("id = $k", [1], "a named parameter; params is a list"),
        ("id = $k", "k", "expected a dict or a list"),
        (pc.field("id") == 1, {"k": 1}, "only SQL text has parameters"),
        ("id = $k", {"k": uuid.UUID(int=1)}, "cannot compare a int64 column"),
        ("id = $k", {"k": object()}, "cannot use"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(
    file: nb.File, text: Any, params: Any, message: str
) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=message):
        file.scan(filter=text, params=params)


def test_joins_advice_and_the_command_line_take_parameters(file: nb.File, path: Path) -> None:
    probe = pa.table({"user": [1, 2], "above": [150, 250]})
    joined = file.index_join(
        probe, on="user", condition="id > above AND id < $most", params={"most": 253}
    )
    assert sorted(joined.column("id").to_pylist()) == [*range(151, 200), 251, 252]
    asked = {"filter": "s = $s AND id < $n", "params": {"s": "s1", "n": 5000}}
    assert nb.advise_indexes(path, [asked])[0].why
    arguments = ["scan", str(path), "--filter", "id = $k", "--param", "k=7", "-c", "id", "--csv"]
    result = CliRunner().invoke(app, arguments)
    assert result.output.split() == ['"id"', "7"]


DIRECTIONS = [(False, False), (True, True), (True, False)]


@pytest.mark.parametrize("descending", DIRECTIONS)
@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
def test_rows_of_values_are_answered_by_the_key(
    tmp_path: Path, op: str, descending: tuple[bool, bool]
) -> None:
    keys = [nb.SortKey(name, descending=down) for name, down in zip("ab", descending, strict=True)]
    pairs = list(itertools.product([None, *range(40)], [None, *range(40)]))
    table = pa.table({"a": [a for a, _ in pairs], "b": [b for _, b in pairs]})
    nb.write(table, tmp_path / "f.nimble", cluster_by=keys, options=nb.WriteOptions(stripe_rows=50))
    file = nb.open(tmp_path / "f.nimble")

    def order(value: int | None) -> int:
        return 1000 if value is None else value

    def holds(a: int | None, b: int | None) -> bool:
        left, right = (order(a), order(b)), (7, 11)
        return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op]

    scan = file.scan(filter=f"(a, b) {op} ($a, $b)", params={"a": 7, "b": 11})
    found = scan.to_table()
    expected = [pair for pair in pairs if holds(*pair)]
    assert sorted(map(str, zip(*found.to_pydict().values(), strict=True))) == sorted(
        map(str, expected)
    )
    plan = str(scan.explain())
    assert "cluster index" in plan
    if descending == (False, False):
        assert f"{len(expected):,}" in plan or str(len(expected)) in plan


def test_the_next_page_is_found_by_the_key(path: Path) -> None:
    """A page after a row looks at the rows of a range of the key, and at no more."""
    file = nb.open(path, mmap=False)
    after = {"u": 50, "t": STAMP + datetime.timedelta(hours=98)}
    text = "(user, ts) > ($u, $t) AND user <= 51"
    assert "rows to look at=101," in str(file.explain(filter=text, params=after))
    page = file.to_table(["user", "ts", "id"], text, after)
    assert page.column("id").to_pylist() == list(range(5099, 5200))
    file.reset_io_stats()
    again = file.scan(["id"], filter="(user, ts) > ($u, $t)", params=after, limit=20).to_table()
    assert again.column("id").to_pylist() == list(range(5099, 5119))
    assert file.io_stats.reads <= 4


@pytest.mark.parametrize(
    ("text", "params", "expected"),
    [
        ("length(s) = $n OR s = ''", {"n": 1}, [0, 1]),
        ("length(s) = ? OR s = ''", [1], [0, 1]),
        ("month(t) IN $m", {"m": [1, 2]}, [0]),
        ("month(t) IN $m", {"m": [None, 3]}, [1, 2]),
        ("month(t) NOT IN $m", {"m": [None, 3]}, []),
        ("month(t) IN $m", {"m": []}, []),
        ("month(t) NOT IN $m", {"m": []}, [0, 1, 2]),
        ("d IN $d", {"d": [1.1]}, [0]),
        ("d + 0 IN $d", {"d": [1.1, Decimal("2.5")]}, [0, 1]),
        ("upper(s) IN $s", {"s": ["X", "it's"]}, [1]),
    ],
)
def test_lists_and_empty_texts_in_functions(
    tmp_path: Path, text: str, params: Any, expected: list[int]
) -> None:
    table = pa.table(
        {
            "s": ["", "x", "yy"],
            "t": [
                datetime.datetime(2024, 1, 1),
                datetime.datetime(2024, 3, 1),
                datetime.datetime(2024, 3, 2),
            ],
            "d": pa.array([Decimal("1.10"), Decimal("2.50"), None], pa.decimal128(9, 2)),
        }
    )
    nb.write(table.append_column("row", pa.array([0, 1, 2])), tmp_path / "t.nimble")
    scan = nb.open(tmp_path / "t.nimble").scan(["row"], filter=text, params=params)
    assert scan.to_table()["row"].to_pylist() == expected
