"""Commands that create, change and drop tables."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import nimblepy as nb
from nimblepy.cli.column_types import parse_columns, parse_type
from nimblepy.cli.main import app

pytestmark = pytest.mark.no_sanitizer


def run(*arguments: str | Path, answer: str | None = None, status: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=answer)
    assert result.exit_code == status, result.output
    return result


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "price": [1.5, 2.5, 3.5]}), path)
    return path


@pytest.fixture
def table(tmp_path: Path, data: Path) -> str:
    name = f"{tmp_path}/lake#shop.items"
    run("table", "create", name, data, "--primary-key", "id")
    return name


def opened(table: str) -> nb.Table:
    lake, _, name = table.rpartition("#")
    return nb.connect(lake).table(name)


def test_create_from_files(tmp_path: Path, data: Path) -> None:
    name = f"{tmp_path}/new#shop.items"
    how = ["--primary-key", "id", "--partition-by", "bucket(2, id)", "--hash-index", "price"]
    result = run("table", "create", name, data, *how, "--property", "owner=me", "--json")
    assert json.loads(result.stdout)["rows"] == 3
    table = opened(name)
    assert (table.primary_key, table.partition_by) == (["id"], ["bucket(2, id)"])
    assert table.properties["owner"] == "me"
    run("table", "create", name, data, status=2)
    run("table", "create", name, data, "--if-not-exists")
    assert opened(name).num_rows == 3


def test_create_an_empty_table(tmp_path: Path) -> None:
    name = f"{tmp_path}/new#shop.items"
    schema = "id bigint, at timestamptz, price decimal(10, 2), tags list<string>"
    run("table", "create", name, "--schema", schema, "--primary-key", "id", "--comment", "what")
    table = opened(name)
    assert table.schema.names == ["id", "at", "price", "tags"]
    assert table.schema.field("price").type == pa.decimal128(10, 2)
    assert table.properties["comment"] == "what"
    assert "pass files with rows, or --schema" in run("table", "create", name, status=2).stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BIGINT", pa.int64()),
        ("int64", pa.int64()),
        ("double", pa.float64()),
        ("decimal128(10, 2)", pa.decimal128(10, 2)),
        ("timestamp[us, tz=Europe/Berlin]", pa.timestamp("us", "Europe/Berlin")),
        ("list<item: list<int>>", pa.list_(pa.list_(pa.int32()))),
        ("text[]", pa.list_(pa.string())),
        ("uuid", pa.uuid()),
    ],
)
def test_types_have_sql_and_arrow_names(text: str, expected: pa.DataType) -> None:
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    "kind",
    [
        pa.map_(pa.string(), pa.int64()),
        pa.struct([("a", pa.string()), ("b", pa.list_(pa.struct([("c", pa.decimal128(10, 2))])))]),
        pa.list_(pa.field("element", pa.timestamp("us", "UTC"))),
        pa.list_(pa.field("element", pa.float32()), 4),
        pa.uuid(),
        pa.binary(4),
        pa.list_(pa.timestamp("us", "UTC")),
    ],
)
def test_types_are_read_as_they_are_printed(kind: pa.DataType) -> None:
    assert parse_type(str(kind)) == kind


def test_lengths_and_zones_end_at_their_bracket() -> None:
    assert parse_type("timestamp[us, tz=UTC][3]") == pa.list_(pa.timestamp("us", "UTC"), 3)
    with pytest.raises(nb.InvalidArgumentError, match="the length 99999999999"):
        parse_type("int[99999999999]")


def test_nested_types_in_sql() -> None:
    schema = parse_columns("a map(text, double), b struct(x int, y text[]), c float[3]")
    assert schema.types == [
        pa.map_(pa.string(), pa.float64()),
        pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]),
        pa.list_(pa.float32(), 3),
    ]


@pytest.mark.parametrize("text", ["money", "map<text>", "list<", "map<,>", ""])
def test_unknown_types_are_refused(text: str) -> None:
    with pytest.raises(nb.InvalidArgumentError, match=r"type '.*': expected a type such as"):
        parse_type(text)


def test_columns_of_a_new_table_may_be_required(table: str) -> None:
    schema = parse_columns("id bigint NOT  NULL, price decimal(10, 2), v float[2] not null")
    assert [field.nullable for field in schema] == [False, True, False]
    assert schema.types == [pa.int64(), pa.decimal128(10, 2), pa.list_(pa.float32(), 2)]
    result = run("table", "alter", table, "--add", "x int not null", status=2)
    assert "only --schema of create takes 'not null'" in result.stderr


def test_append_several_files_in_one_commit(table: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,price\n4,4\n")
    (tmp_path / "b.csv").write_text("id,price\n5,5\n")
    result = run("table", "append", table, tmp_path / "a.csv", tmp_path / "b.csv", "--json")
    assert json.loads(result.stdout)["rows_inserted"] == 2
    assert opened(table).snapshots().num_rows == 2
    assert opened(table).get(5) == {"id": 5, "price": 5.0}


def test_append_once_per_batch(table: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,price\n4,4\n")
    for _ in range(2):
        shown = run("table", "append", table, tmp_path / "a.csv", "--batch", "daily=7").stdout
    assert "already has batch daily=7 or a later one" in shown
    assert opened(table).num_rows == 4
    wrong = run("table", "append", table, tmp_path / "a.csv", "--batch", "7", status=2)
    assert "NAME=NUMBER" in wrong.stderr


def test_append_adds_columns(table: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,price,color\n4,4,red\n")
    run("table", "append", table, tmp_path / "a.csv", status=2)
    run("table", "append", table, tmp_path / "a.csv", "--new-columns", "add")
    assert opened(table).get(4) == {"id": 4, "price": 4.0, "color": "red"}


def test_append_the_rows_of_a_table(table: str) -> None:
    lake = table.partition("#")[0]
    run("table", "create", f"{lake}#shop.other", "--schema", "id bigint, price double")
    assert "3 rows inserted" in run("table", "append", f"{lake}#shop.other", table).stdout


def test_upsert(table: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,price\n3,9\n4,4\n4,5\n")
    run("table", "upsert", table, tmp_path / "a.csv", status=2)
    how = ["--duplicates", "last", "--update", "price"]
    result = run("table", "upsert", table, tmp_path / "a.csv", *how)
    assert "1 rows inserted, 1 updated" in result.stdout
    assert [opened(table).get(key)["price"] for key in (3, 4)] == [9.0, 5.0]  # type: ignore[index]


def test_create_with_format_version_3(tmp_path: Path) -> None:
    place = f"{tmp_path}/lake#shop.three"
    run("table", "create", place, "--schema", "id bigint", "--format-version", "3")
    assert opened(place).iceberg.metadata.format_version == 3
    wrong = run(
        "table", "create", f"{place}x", "--schema", "id bigint", "--format-version", "7", status=2
    )
    assert "expected a format version of 2 or 3, got 7" in wrong.stderr


def test_publish_delta(tmp_path: Path) -> None:
    place = f"{tmp_path}/lake#shop.flat"
    (tmp_path / "a.csv").write_text("id,price\n4,4\n")
    run("table", "create", place, "--schema", "id bigint, price double", "--data-format", "parquet")
    assert "Delta version 0" in run("table", "publish-delta", place).stdout
    run("table", "append", place, tmp_path / "a.csv")
    shown = run("table", "publish-delta", place, "--stop").stdout
    assert shown.startswith(f"{place}: Delta version 1; later commits are not published")


def test_delete_takes_parameters(table: str) -> None:
    done = run("table", "delete", table, "--filter", "id = $id", "--param", "id=1")
    assert "1 deleted" in done.stdout
    assert opened(table).get(1) is None


def test_history_fits_on_a_screen(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    opened(table).tag("before")
    opened(table).delete("id = 1")
    shown = run("table", "history", table).stdout.splitlines()
    first, second = (line.split("│")[1:-1] for line in shown if line.startswith("│"))
    assert first[-1].strip() == "before"
    assert [cell.strip() for cell in second[-2:]] == ["-1", "main"]
    assert second[1].strip() == str(opened(table).snapshot)


def test_alter(table: str) -> None:
    changes = ["--rename", "price=amount", "--add", "note text", "--partition-by", "bucket(4, id)"]
    result = run("table", "alter", table, *changes, "--property", "owner=me", "--json")
    assert json.loads(result.stdout) == {
        "columns": {"id": "int64", "amount": "double", "note": "string"},
        "partition_by": ["bucket(4, id)"],
    }
    run("table", "alter", table, "--drop", "note", "--partition-by", "none")
    assert opened(table).schema.names == ["id", "amount"]
    assert opened(table).partition_by == []
    assert "nothing to change" in run("table", "alter", table, status=2).stderr


def test_tags_and_branches(table: str) -> None:
    first = opened(table).snapshot
    for kind in ("tag", "branch"):
        run("table", kind, table, "kept")
        assert f"kept: {first}" in run("table", kind, table).stdout
        run("table", kind, table, "kept", status=2)
        run("table", kind, table, "kept", "--drop")
        assert f"no {kind} 'kept'" in run("table", kind, table, "kept", "--drop", status=2).stderr
    opened(table).delete("id = 1")
    run("table", "tag", table, "before", "--snapshot", str(first))
    assert opened(table).tags == {"before": first}


def test_tags_move(table: str) -> None:
    run("table", "tag", table, "latest")
    opened(table).delete("id = 1")
    run("table", "tag", table, "latest", "--replace")
    assert opened(table).tags == {"latest": opened(table).snapshot}


def test_a_branch_is_written_and_published(table: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,price\n3,9\n4,4\n")
    run("table", "branch", table, "audit")
    run("table", "upsert", table, tmp_path / "a.csv", "--branch", "audit")
    assert run("scan", table, "--count").stdout == "3\n"
    assert run("scan", table, "--count", "--branch", "audit").stdout == "4\n"
    run("table", "fast-forward", table, "main", "--to", "audit")
    assert opened(table).get(4) == {"id": 4, "price": 4.0}


def test_docs_comments_and_removed_properties(table: str) -> None:
    run("table", "alter", table, "--doc", "price=in euros", "--comment", "all items")
    run("table", "alter", table, "--property", "owner=me")
    run("table", "alter", table, "--unset", "owner")
    metadata = opened(table).schema.field("price").metadata
    assert metadata == {b"doc": b"in euros"}
    assert opened(table).comment == "all items"
    assert "owner" not in opened(table).properties


def test_reads_of_a_version(table: str) -> None:
    first = opened(table).snapshot
    opened(table).tag("v1")
    opened(table).branch("audit")
    opened(table).delete("id < 3")
    for option in (["--tag", "v1"], ["--snapshot", str(first)], ["--branch", "audit"]):
        assert run("scan", table, "--count", *option).stdout == "3\n"
        assert json.loads(run("table", "show", table, "--json", *option).stdout)["rows"] == 3
        run("lookup", table, "1", *option)
        run("sql", table, "SELECT id FROM t WHERE id = 1", *option)
        run("range", table, "--upper", "3", *option)
        run("diff", table, table, *option, status=1)
        for command in ("schema", "stats", "inspect", "verify"):
            run(command, table, *option)
    run("lookup", table, "1", status=1)
    assert "has no snapshot as old" in run("scan", table, "--time", "1d", status=2).stderr
    run("scan", table, "--time", "0s")
    assert "as in 2h" in run("scan", table, "--time", "soon", status=2).stderr
    two = run("scan", table, "--tag", "v1", "--branch", "audit", status=2)
    assert "give exactly one of" in two.stderr


def test_only_tables_have_versions(data: Path, tmp_path: Path) -> None:
    nb.convert(data, tmp_path / "f.nimble")
    for command in (["scan", tmp_path / "f.nimble"], ["convert", data, tmp_path / "g.nimble"]):
        result = run(*command, "--tag", "v1", status=2)
        assert "only tables have versions" in result.stderr


def test_status_is_1_if_no_row_is_found(table: str) -> None:
    run("lookup", table, "99", status=1)
    run("range", table, "--lower", "99", status=1)
    run("scan", table, "-f", "id = 99", status=1)
    run("scan", table, "-f", "id = 99", "--count", status=1)
    run("scan", table, "-f", "id = 99", "--json", status=1)
    run("sql", table, "SELECT id FROM t WHERE id = 99", "--csv", status=1)
    run("lookup", table, "99", "--explain")


def test_rollback_asks(table: str) -> None:
    first = opened(table).snapshot
    opened(table).tag("v1")
    opened(table).delete("id = 1")
    second = opened(table).snapshot
    assert (
        "nothing was changed"
        in run("table", "rollback", table, "v1", answer="n\n", status=1).stderr
    )
    assert "--yes" in run("table", "rollback", table, "v1", status=2).stderr
    assert opened(table).snapshot == second
    run("table", "rollback", table, "v1", answer="y\n")
    assert opened(table).snapshot == first
    assert "already" in run("table", "rollback", table, str(first), "--yes").stdout
    assert "name one snapshot" in run("table", "rollback", table, "--yes", status=2).stderr


def test_drop_and_register(table: str) -> None:
    metadata = opened(table).metadata_location
    run("table", "drop", table, answer="n\n", status=1)
    assert "dropped" in run("table", "drop", table, "--yes").stdout
    run("table", "show", table, status=2)
    assert "3 rows" in run("table", "register", table, metadata).stdout
    run("table", "drop", table, "--purge", "--yes")
    assert not Path(metadata.removeprefix("file://")).exists()


def test_optimize_and_rewrite_manifests(table: str) -> None:
    for key in range(10, 22):
        opened(table).append(pa.table({"id": [key], "price": [1.0]}))
    assert "compact" in run("table", "health", table, status=1).stdout
    done = json.loads(run("table", "optimize", table, "--json").stdout)
    assert done["compact"]["files_added"] == 1
    assert "nothing to do" in run("table", "optimize", table).stdout
    run("table", "health", table)
    assert "manifests became" in run("table", "rewrite-manifests", table, "--whole").stdout


def test_errors_name_options_of_commands(table: str, tmp_path: Path, data: Path) -> None:
    """They named arguments and methods of Python."""
    wider, half, keyless = (tmp_path / f"{name}.csv" for name in ("wider", "half", "keyless"))
    wider.write_text("id,price,more\n4,1,2\n")
    half.write_text("id,price\n4.5,1\n")
    keyless.write_text("v\n1\n")
    other = table.replace("items", "keyless")
    run("table", "create", other, keyless)
    run("table", "tag", table, "first")
    for command, message in (
        (["create", table, data], "--if-not-exists keeps it"),
        (["append", table, wider], "--new-columns add adds it, --new-columns drop leaves it out"),
        (["append", table, half], "pass --cast to truncate it"),
        (["append", table, data], "nimble table upsert replaces rows"),
        (["upsert", other, keyless], "has no primary key to find rows by\n"),
        (["rollback", table, "77"], "see nimble table history"),
        (["diff", table, "77"], "see nimble table history"),
    ):
        error = run("table", *command, status=2).stderr
        assert message in error
        assert "()" not in error
    run("table", "append", other, keyless)
    moved = run("table", "tag", table, "first", "--branch", "main", status=2).stderr
    assert "; --replace moves it" in moved


@pytest.mark.parametrize("output", ["json", "csv"])
def test_printed_rows_are_appended_again(tmp_path: Path, output: str) -> None:
    # Bytes came back as their hexadecimal text, and floats that are not finite were refused.
    nested = pa.struct([("b", pa.binary()), ("f", pa.float32())])
    infinity, nan = float("inf"), float("nan")
    columns = {
        "id": pa.array(range(4)),
        "f": pa.array([1.5, infinity, -infinity, None]),
        "f32": pa.array([0.1, infinity, 1e-45, None], pa.float32()),
        "b": pa.array([b"a\xff", b"", None, b"ok"]),
        "b3": pa.array([b"abc", None, b"\0\0\0", b"   "], pa.binary(3)),
        "d": pa.array([Decimal("0.01"), None, Decimal("-1E20"), Decimal(0)], pa.decimal128(38, 10)),
        "u": pa.array([uuid.UUID(int=7).bytes, None, b"x" * 16, b"y" * 16], pa.uuid()),
        "t": pa.array(["", None, "NULL", "a\r\nb"]),
        "at": pa.array([0, None, 1, -1], pa.timestamp("us", "Europe/Paris")),
    }
    if output == "json":
        columns["s"] = pa.array([{"b": b"\xff", "f": nan}, None, {"b": None, "f": 1}, {}], nested)
        sizes = pa.struct([("b", pa.binary(4)), ("t", pa.time64("us")), ("x", pa.binary(16))])
        row = {"b": b"\0abc", "t": dt.time(1, 2, 3, 4), "x": bytes(range(16))}
        columns["n"] = pa.array([row, None, {"t": dt.time(1)}, {"x": b"y" * 16}], sizes)
        columns["l"] = pa.array([[b"\xff", None], None, [], [b""]], pa.list_(pa.binary()))
        columns["m"] = pa.array(
            [[("k", infinity)], None, [], [("", 0.5)]], pa.map_(pa.string(), pa.float64())
        )
    lake = nb.connect(tmp_path / "lake")
    given = lake.create_table("a.b", pa.table(columns))
    path = tmp_path / f"rows.{output}"
    path.write_bytes(run("scan", f"{tmp_path}/lake#a.b", f"--{output}").stdout_bytes)
    for cast in (False, True):
        read = lake.create_table(f"a.{cast}", given.schema)
        read.append(path, cast=cast)
        assert repr(read.to_table().to_pylist()) == repr(given.to_table().to_pylist())
