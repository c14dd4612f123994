"""``nimble table``, and tables wherever a file is taken."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import nimblepy as nb
from nimblepy.cli.main import app


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def place(lake: nb.Catalog, tmp_path: Path) -> str:
    table = lake.create_table(
        "shop.items",
        pa.table({"id": range(10), "g": ["a", "b"] * 5}),
        cluster_by="id",
        partition_by="g",
    )
    table.delete("id = 4")
    table.tag("v1")
    return f"{tmp_path}/lake#shop.items"


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_what_there_is(place: str) -> None:
    assert lines(run("table", "ls", place.partition("#")[0], "--json")) == [{"table": "shop.items"}]
    shown = json.loads(run("table", "show", place, "--json").stdout)
    assert (shown["rows"], shown["files"], shown["partition_by"]) == (9, 2, ["g"])
    assert list(shown["tags"]) == ["v1"]
    assert "rows: 9" in run("table", "show", place).stdout
    history = lines(run("table", "history", place, "--json"))
    assert [row["operation"] for row in history] == ["append", "delete"]
    files = lines(run("table", "files", place, "--json"))
    assert sorted((row["partition"], row["deleted"]) for row in files) == [("g=a", 1), ("g=b", 0)]


def test_partitions(place: str) -> None:
    rows = lines(run("table", "partitions", place, "-c", "partition,rows,deleted", "--json"))
    assert rows == [
        {"partition": "g=a", "rows": 5, "deleted": 1},
        {"partition": "g=b", "rows": 5, "deleted": 0},
    ]
    assert "g=b" in run("table", "partitions", place, "--tag", "v1").stdout


def test_rows(place: str) -> None:
    for command in (["lookup"], ["table", "lookup"]):
        assert lines(run(*command, place, "3", "4", "--json")) == [{"id": 3, "g": "b"}]
    found = lines(run("table", "scan", place, "-f", "g = 'a' AND id > 2", "--json"))
    assert [row["id"] for row in found] == [6, 8]
    assert [row["id"] for row in lines(run("range", place, "--lower", "7", "--json"))] == [7, 8, 9]
    assert run("schema", place).exit_code == 0


def test_changes(place: str) -> None:
    (first, second) = (
        row["snapshot_id"] for row in lines(run("table", "history", place, "--json"))
    )
    assert lines(run("table", "diff", place, str(first), "--json")) == [
        {"id": 4, "g": "a", "_change": "delete", "_snapshot": second}
    ]
    assert lines(run("table", "diff", place, "v1", "--json")) == []
    found = lines(run("table", "diff", place, "none", str(first), "-c", "id", "--json"))
    assert sorted(row["id"] for row in found) == list(range(10))
    wrong = run("table", "diff", place, "v2")
    assert wrong.exit_code == 2
    assert "tags: v1" in wrong.output


def test_compact(place: str) -> None:
    done = json.loads(run("table", "compact", place, "--all", "-f", "g = 'a'", "--json").stdout)
    assert (done["files_removed"], done["files_added"]) == (1, 1)
    assert "0 files became 0" in run("table", "compact", place).stdout
    assert json.loads(run("table", "show", place, "--json").stdout)["rows"] == 9


def test_expire_and_orphans(place: str) -> None:
    done = json.loads(run("table", "expire", place, "--keep", "1", "--json").stdout)
    assert len(done["snapshots"]) == 1
    result = run("table", "remove-orphans", place, "--older-than", "0s", "--dry-run")
    assert result.stdout.startswith("0 snapshots, ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ls", "nowhere"], "not a catalog of tables"),
        (["show", "nowhere"], "expected CATALOG#NAMESPACE.NAME"),
        (["expire", "{place}", "--older-than", "soon"], "as in 3d"),
        (["expire", "{place}", "--older-than", "99999999999999d"], "before the year 1"),
        (["remove-orphans", "{place}", "--older-than", "999999999d"], "before the year 1"),
        (["show", "{place}x"], "no table"),
    ],
)
def test_mistakes(place: str, arguments: list[str], message: str) -> None:
    result = run("table", *(argument.replace("{place}", place) for argument in arguments))
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_a_catalog_where_a_table_is_expected(place: str) -> None:
    catalog = place.partition("#")[0]
    for command in (["table", "scan"], ["table", "lookup"], ["table", "show"], ["scan"]):
        result = run(*command, catalog, *(["3"] if "lookup" in command else []))
        assert result.exit_code == 2
        said = " ".join(result.stderr.split())
        assert "expected CATALOG#NAMESPACE.NAME" in said
        assert "lake#shop.items" in said


def _shown(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_ids_are_in_one_line(lake: nb.Catalog, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = _shown(monkeypatch, "table", "history", place)
    for number in lake.table("shop.items").snapshots()["snapshot_id"].to_pylist():
        assert f" {number} " in shown


def test_what_a_change_is_comes_first(
    lake: nb.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside many columns it was left out."""
    lake.create_table("a.wide", pa.table({f"column_{i}": range(2) for i in range(20)}))
    place = f"{tmp_path}/lake#a.wide"
    assert "_change" in _shown(monkeypatch, "table", "diff", place, "none").splitlines()[1]
    (*_, last), _ = (list(row) for row in lines(run("table", "diff", place, "none", "--json")))
    assert last == "_snapshot"


def test_keys_with_commas_are_explained(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert '"eu, de",3' in " ".join(_shown(monkeypatch, "lookup", "--help").split())


# Both said "No such file or directory" of a table, which every command takes for a file.
def test_convert_takes_a_table(place: str, tmp_path: Path) -> None:
    target = tmp_path / "out.nimble"
    result = run("convert", place, target, "--cluster-by", "id", "--columns", "id,g", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["num_rows"] == 9
    with nb.open(target) as file:
        assert file.get(3) == {"id": 3, "g": "b"}
        assert file.get(4) is None
    for wrong, message in (
        ((place, target, "--overwrite", "--format", "csv"), "--format is for files"),
        ((place.partition("#")[0], target, "--overwrite"), "expected CATALOG#NAMESPACE.NAME"),
        ((place + "x", target, "--overwrite"), "there is no table"),
        ((target, place), "is a table"),
    ):
        result = run("convert", *wrong)
        assert result.exit_code != 0
        assert message in result.stderr


def test_advise_takes_a_table(place: str) -> None:
    result = run("advise", place, "--on", "g", "--filter", "id = 3", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)


@pytest.mark.parametrize(
    "command",
    [
        ("inspect",),
        ("schema",),
        ("stats",),
        ("verify",),
        ("range",),
        ("scan",),
        ("lookup", "3"),
        ("sql", "SELECT id FROM t"),
        ("diff", "SAME"),
        ("merge", "-o", "OUT"),
    ],
    ids=lambda command: command[0],
)
def test_commands_take_tables(place: str, tmp_path: Path, command: tuple[str, ...]) -> None:
    names = {"SAME": place, "OUT": str(tmp_path / "out.nimble")}
    rest = [names.get(word, word) for word in command[1:]]
    result = run(command[0], place, *rest)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("command", [("add-index", "--hash-index", "g"), ("drop-index", "g")])
def test_indexes_of_tables_are_refused_by_name(place: str, command: tuple[str, ...]) -> None:
    result = run(command[0], place, *command[1:])
    assert result.exit_code != 0
    assert "is a table; it gets its indexes by create_table" in " ".join(result.stderr.split())


# The hint named --columns, which the commands did not have.
@pytest.mark.parametrize("command", ["history", "files"])
def test_columns_of_wide_rows_are_chosen(
    place: str, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert "--columns chooses" in run("table", command, place).stderr
    names = {"history": ["rows_inserted", "operation"], "files": ["rows", "partition"]}[command]
    rows = lines(run("table", command, place, "--columns", ",".join(names), "--json"))
    assert [list(row) for row in rows] == [names, names]
    result = run("table", command, place, "-c", "no_such")
    assert result.exit_code != 0
    assert "no_such" in result.stderr
    assert "--columns" not in run("stats", place).stderr


@pytest.mark.parametrize("width", [20, 40, 60, 80, 81, 90, 100, 120, 200])
def test_the_last_column_is_not_cut(
    place: str, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    # "us" and "ro" of user and root, and no border on the right.
    monkeypatch.setenv("COLUMNS", str(width))
    for command in (["history"], ["files"]):
        shown = run("table", *command, place).stdout.splitlines()
        assert {line[-1] for line in shown} <= set("┓┃┩│┘")
        assert len({len(line) for line in shown}) == 1
        assert len(shown[0]) <= max(width, 26)


@pytest.mark.parametrize(
    ("by", "value", "shown"),
    [
        ("month(x)", dt.datetime(2013, 1, 5, 3), "2013-01"),
        ("year(x)", dt.datetime(2013, 1, 5, 3), "2013"),
        ("day(x)", dt.datetime(2013, 1, 5, 3), "2013-01-05"),
        ("hour(x)", dt.datetime(2013, 1, 5, 3), "2013-01-05T03"),
        ("month(x)", dt.datetime(1969, 12, 31), "1969-12"),
        ("month(x)", None, "null"),
        ("x", dt.date(2013, 1, 5), "2013-01-05"),
        ("x", dt.datetime(2013, 1, 5, 3), "2013-01-05T03:00:00"),
        ("x", True, "true"),
        ("x", Decimal("1.50"), "1.50"),
        ("x", b"\x01\xff", "01ff"),
        ("x", "a", "a"),
        ("truncate(2, x)", "abc", "ab"),
        ("bucket(1, x)", 7, "0"),
    ],
)
def test_partitions_are_readable(
    lake: nb.Catalog, tmp_path: Path, by: str, value: object, shown: str
) -> None:
    # Months were numbers since 1970.
    data = pa.table({"x": [value, value], "id": [1, 2]})
    if value is None:
        data = pa.table({"x": pa.nulls(2, pa.timestamp("us")), "id": [1, 2]})
    lake.create_table("a.t", data, partition_by=by)
    (row,) = lines(run("table", "files", f"{tmp_path}/lake#a.t", "--json"))
    assert row["partition"].partition("=")[2] == shown


def test_a_catalog_that_is_not_there(tmp_path: Path) -> None:
    result = run("table", "ls", tmp_path / "nolake")
    assert "the directory does not exist" in " ".join(result.stderr.split())
    (tmp_path / "empty").mkdir()
    result = run("table", "ls", tmp_path / "empty")
    assert "not a catalog of tables" in " ".join(result.stderr.split())


def test_lookup_takes_the_key_that_python_takes(lake: nb.Catalog, tmp_path: Path) -> None:
    rows = {"id": [1, 2], "g": ["a", "b"]}
    table = lake.create_table("shop.keys", rows, primary_key="id", cluster_by="g")
    place = f"{tmp_path}/lake#shop.keys"
    for command in (("lookup",), ("table", "lookup")):
        result = run(*command, place, "2", "--json")
        assert result.exit_code == 0, result.output
        assert lines(result) == table.lookup([2]).to_pylist()
    assert lines(run("lookup", place, "a", "--on", "g", "--json")) == [{"id": 1, "g": "a"}]


def test_show_prints_the_comment_properties_and_indexes(lake: nb.Catalog, tmp_path: Path) -> None:
    lake.create_table(
        "shop.shown", {"id": [1], "g": ["a"]}, primary_key="id", comment="what it is",
        properties={"owner": "me"}, indexes=[nb.HashIndex("g")],
    )  # fmt: skip
    text = run("table", "show", f"{tmp_path}/lake#shop.shown").stdout
    assert "comment: what it is" in text
    assert "  owner: me" in text
    assert "hash on g" in text


@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_a_name_in_an_empty_table_names_its_first_snapshot(
    lake: nb.Catalog, tmp_path: Path, kind: str
) -> None:
    lake.create_table("shop.empty", pa.schema({"id": pa.int64()}))
    result = run("table", kind, f"{tmp_path}/lake#shop.empty", "t")
    assert result.exit_code == 0, result.output
    table = lake.table("shop.empty")
    snapshot = (table.tags if kind == "tag" else table.branches)["t"]
    assert f"names snapshot {snapshot}" in result.stdout


def test_serve_says_the_order_of_a_table_and_its_name(place: str) -> None:
    result = run("serve", place.partition("#")[0], "--table", "items=shop.items")
    assert result.exit_code != 0
    assert "--table shop.items=items" in " ".join(result.stderr.split())
