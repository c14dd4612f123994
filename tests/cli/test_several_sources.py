"""Commands over several sources (merge, diff), over SELECT, and tables in narrow terminals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import nimblepy as nb
from nimblepy.cli.main import app

pytestmark = pytest.mark.no_sanitizer  # starts processes, prints


def run(*arguments: str | Path, **environment: str) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], env=environment)


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def write(path: Path, **columns: Any) -> Path:
    indexes = [nb.HashIndex("s"), nb.SortedIndex(["v", nb.SortKey("k", descending=True)])]
    nb.write(pa.table(columns), path, cluster_by="k", unique=True, indexes=indexes)
    return path


@pytest.fixture
def old(tmp_path: Path) -> Path:
    nan = float("nan")
    return write(
        tmp_path / "old.nimble", k=[1, 2, 3, 4], v=[1.0, nan, 3.0, None], s=["a", "b", "c", "d"]
    )


@pytest.fixture
def new(tmp_path: Path) -> Path:
    nan = float("nan")
    return write(
        tmp_path / "new.nimble", k=[2, 3, 4, 5], v=[nan, 3.5, None, 5.0], s=["b", "c", "D", "e"]
    )


def test_merge_keeps_key_and_indexes(old: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    more = write(tmp_path / "more" / "1.nimble", k=[0, 9], v=[0.5, 9.0], s=["z", "y"])
    target = tmp_path / "all.nimble"
    result = run("merge", more.parent, old, "-o", target, "--unique", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["num_rows"] == 6
    with nb.open(target) as merged, nb.open(old) as one:
        assert merged.to_table()["k"].to_pylist() == [0, 1, 2, 3, 4, 9]
        assert merged.unique
        shape = [(index.kind, index.columns, index.has_bloom) for index in merged.indexes]
        assert shape == [(index.kind, index.columns, index.has_bloom) for index in one.indexes]


def test_merge_refuses_what_does_not_go_together(old: Path, new: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.nimble"
    twice = run("merge", old, new, "-o", target)
    assert twice.exit_code == 2
    assert "occurs twice" in twice.stderr
    assert not target.exists()
    assert run("merge", old, new, "-o", target, "--no-unique").exit_code == 0
    assert nb.open(target).num_rows == 8
    assert "exists" in run("merge", old, "-o", target).stderr
    nb.write({"k": [1], "v": [1.0], "s": ["x"]}, tmp_path / "other.nimble", cluster_by="s")
    result = run("merge", old, tmp_path / "other.nimble", "-o", target, "--overwrite")
    assert "other.nimble is clustered by s" in result.stderr


def test_diff_tells_rows_by_their_key(old: Path, new: Path) -> None:
    result = run("diff", old, new, "--json")
    assert result.exit_code == 1
    found = [(row["change"], row["k"], row["v"], row["s"]) for row in lines(result)]
    assert found == [
        ("removed", 1, 1.0, "a"),
        ("before", 3, 3.0, "c"),
        ("after", 3, 3.5, "c"),
        ("before", 4, None, "d"),
        ("after", 4, None, "D"),
        ("added", 5, 5.0, "e"),
    ]
    assert "1 removed, 1 added, 2 changed" in run("diff", old, new).stdout
    assert "1 removed, 1 added, 1 changed" in run("diff", old, new, "-c", "s", "-n", "0").stdout
    same = run("diff", old, old)
    assert (same.exit_code, same.stdout) == (0, "0 removed, 0 added, 0 changed\n")


def test_diff_of_other_types_and_columns(old: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.nimble"
    table = nb.open(old).to_table().append_column("more", pa.array([1, 2, 3, 4]))
    table = table.set_column(1, "v", pa.array([1, 2, 3, None], pa.int64())).drop_columns(["s"])
    nb.write(table, other, cluster_by="k")
    result = run("diff", old, other, "--json")
    assert [row["k"] for row in lines(result)] == [2, 2]  # NaN is no 2
    for told in ("'s' was removed", "'more' was added", "'v' was double, is int64"):
        assert told in result.stderr
    nested = tmp_path / "nested.nimble"
    nb.write({"k": [1, 2], "x": [[{"a": 1.5}], []]}, nested, cluster_by="k")
    nb.write({"k": [1, 2], "x": [[{"a": 1.5}], [{"a": 2.5}]]}, other, cluster_by="k")
    assert [row["k"] for row in lines(run("diff", nested, other, "--json"))] == [2, 2]


def test_diff_of_view_columns(tmp_path: Path) -> None:
    old, new = tmp_path / "old.nimble", tmp_path / "new.nimble"
    for path, keys, text in ((old, [1, 2, 4], "a"), (new, [1, 2, 5], "b")):
        views = pa.array([text, "same", None], pa.string_view())
        nb.write(pa.table({"k": keys, "v": views}), path, cluster_by="k")
    found = [(row["change"], row["k"], row["v"]) for row in lines(run("diff", old, new, "--json"))]
    assert found == [
        ("removed", 4, None),
        ("before", 1, "a"),
        ("after", 1, "b"),
        ("added", 5, None),
    ]


def test_diff_needs_a_unique_key(old: Path, new: Path, tmp_path: Path) -> None:
    twice = tmp_path / "twice.nimble"
    nb.write({"k": [1, 1], "v": [1.0, 2.0], "s": ["a", "b"]}, twice, cluster_by="k")
    for pair in ((old, twice), (twice, old)):
        assert "the key of 2 rows" in run("diff", *pair).stderr
    assert run("diff", twice, old, "--on", "s").exit_code == 2
    assert "no index on (v, s)" in run("diff", old, new, "--on", "v,s").stderr


def test_sql_is_a_query_of_duckdb(old: Path) -> None:
    pytest.importorskip("duckdb")
    result = run("sql", old, "SELECT s, K FROM t WHERE v IS DISTINCT FROM 1 LIMIT 2;", "--json")
    assert lines(result) == [{"s": "b", "k": 2}, {"s": "c", "k": 3}]
    text = "SELECT count(*) AS n FROM t WHERE k > $least"
    assert lines(run("sql", old, text, "-p", "least=2", "--json")) == [{"n": 2}]
    grouped = "SELECT k % 2 AS odd, max(k) AS most FROM t GROUP BY odd ORDER BY odd"
    assert lines(run("sql", old, grouped, "--json")) == [
        {"odd": 0, "most": 4},
        {"odd": 1, "most": 3},
    ]
    assert "z" in run("sql", old, "SELECT z FROM t").stderr
    assert run("sql", old, "SELECT s FROM t WHERE k = 1", "--explain").exit_code == 0
    assert run("sql", old, "SELECT", "--json").exit_code == 2


def test_sql_reads_no_other_files(old: Path) -> None:
    pytest.importorskip("duckdb")
    for text in ("SELECT * FROM read_csv('/etc/passwd')", "SET enable_external_access = true"):
        result = run("sql", old, text)
        assert result.exit_code == 2, text
        assert "configuration" in result.stderr


def test_limits_may_be_beyond_all_rows(old: Path) -> None:
    most = "9" * 23
    assert lines(run("scan", old, "-f", "k > 3", "-n", most, "--json")) == [
        {"k": 4, "v": None, "s": "d"}
    ]
    assert run("diff", old, old, "-n", most).exit_code == 0


def test_wide_rows_show_the_columns_that_fit(tmp_path: Path) -> None:
    path = tmp_path / "wide.nimble"
    nb.write({f"column_{i:02}": [i, i] for i in range(40)}, path)
    shown = run("scan", path, COLUMNS="60")
    header = next(line for line in shown.stdout.splitlines() if "column_00" in line)
    names = [cell.strip() for cell in header.replace("┃", "│").split("│")[1:-1]]
    assert names == [f"column_{i:02}" for i in range(len(names))]
    assert len(names) == 4
    assert all(len(line) <= 60 for line in shown.stdout.splitlines())
    assert "36 more columns: column_04, " in shown.stderr
    assert len(lines(run("scan", path, "--json"))[0]) == 40
    # a name that is wider than the terminal
    nb.write({"x" * 100: [1, 2], "y": [1, 2]}, path)
    assert "1 more columns: y" in run("scan", path, COLUMNS="40").stderr


def test_completion_is_offered() -> None:
    assert "--install-completion" in run("--help").stdout


def test_commands_read_the_rows_behind_an_index(tmp_path: Path) -> None:
    # They showed the keys and row numbers that the index stores.
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "a.parquet")
    path = str(tmp_path / "a.nbx")
    nb.index_files(tmp_path / "a.parquet", path, key="name").close()
    runner = CliRunner()
    for arguments, wanted in (
        (["lookup", path, "b", "--on", "name", "-c", "id", "--json"], '"id": 2'),
        (["scan", path, "--json"], '"name": "a"'),
        (["schema", path], "id"),
        (["sql", path, "SELECT sum(id) AS s FROM t", "--json"], '"s": "3"'),
    ):
        done = runner.invoke(app, arguments)
        assert done.exit_code == 0, done.output
        assert wanted in done.output
        assert "_nimble_row" not in done.output
    assert runner.invoke(app, ["verify", path]).exit_code == 0
    assert runner.invoke(app, ["inspect", path]).exit_code == 0
