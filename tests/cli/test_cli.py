"""The ``nimble`` command: what scripts and people get, and one line for every mistake."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import nimblepy as nb
from nimblepy.cli.main import app
from nimblepy.cli.output import jsonable, plain_values, print_rows

pytestmark = pytest.mark.no_sanitizer  # starts processes, prints

needs_core = pytest.mark.skipif(
    find_spec("nimblepy._core") is None, reason="the compiled core is not built here"
)

ROWS = 100
COMMANDS = ["inspect", "schema", "stats", "verify", "convert", "lookup", "range", "scan"]
COMMANDS += ["add-index", "drop-index", "advise", "merge", "diff", "sql", "nearest"]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def json_lines(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    table = pa.table(
        {
            "k": list(range(ROWS)),
            "name": [f"name [{row % 10}], {row}" for row in range(ROWS)],
            "loc": [{"lat": row / 2, "tags": ["a"]} for row in range(ROWS)],
        }
    )
    path = tmp_path / "in.parquet"
    pq.write_table(table, path)
    return path


@pytest.fixture
def nimble(source: Path, tmp_path: Path) -> Path:
    path = tmp_path / "out.nimble"
    result = run("convert", source, path, "--cluster-by", "k", "--unique")
    assert result.exit_code == 0, result.output
    return path


def test_help_names_every_command() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert all(command in result.output for command in COMMANDS)
    for command in COMMANDS:
        assert run(command, "--help").exit_code == 0


def test_help_does_not_load_arrow_or_rich_tables() -> None:
    code = (
        "import sys, nimblepy.cli.main; "
        "print(sorted({'pyarrow', 'numpy', 'polars'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def check_one_line(result: Result, *parts: str, status: int = 2) -> None:
    assert result.exit_code == status
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert result.stderr.startswith("nimble: error: ")
    assert all(part in result.stderr for part in parts), result.stderr


@needs_core
def test_missing_file_is_one_line(tmp_path: Path) -> None:
    check_one_line(run("schema", tmp_path / "none.nimble"), "none.nimble")


@needs_core
def test_foreign_file_is_one_line(source: Path) -> None:
    check_one_line(run("inspect", source))
    check_one_line(run("verify", source), status=1)


@needs_core
def test_a_condition_without_its_option_names_it(nimble: Path) -> None:
    done = run("scan", nimble, "id = 1")
    assert done.exit_code == 2
    assert "--filter" in done.output


@needs_core
def test_bad_arguments_are_one_line(nimble: Path, source: Path) -> None:
    check_one_line(run("scan", nimble, "--filter", "nam = 1"), "did you mean 'name'")
    check_one_line(run("scan", nimble, "--json", "--csv"), "not both")
    check_one_line(run("lookup", nimble, "seven"), "'seven' is not a value of type int64")
    check_one_line(run("lookup", nimble, "7,8"), "'7,8' is not a value of type int64")
    check_one_line(run("lookup", nimble, "7", "--on", "loc.lat"))
    check_one_line(run("range", nimble, "--prefix", "1", "--lower", "2"), "--prefix")
    check_one_line(run("convert", source, nimble), "--overwrite")
    check_one_line(run("convert", source, nimble, "--overwrite", "--compression", "zip"), "'zip'")
    check_one_line(run("convert", source, nimble, "--overwrite", "-c", "nope"), "'nope'")


@needs_core
def test_schema_and_inspect_as_json(nimble: Path) -> None:
    schema = json.loads(run("schema", nimble, "--json").stdout)
    assert schema["rows"] == ROWS
    assert schema["cluster_by"] == ["k"]
    assert schema["unique"] is True
    assert [column["name"] for column in schema["columns"]] == ["k", "name", "loc"]
    assert [index["kind"] for index in schema["indexes"]] == ["cluster"]
    inspection = json.loads(run("inspect", nimble, "--json").stdout)
    assert inspection["layout"]["kind"] == "file"


@needs_core
def test_tables_for_people(nimble: Path) -> None:
    assert "100 rows" in run("inspect", nimble).stdout
    assert "struct<lat: double" in run("schema", nimble).stdout
    stats = run("stats", nimble)
    assert all(name in stats.stdout for name in ("k", "name", "loc"))
    assert "ok, 100 rows" in run("verify", nimble).stdout
    page = run("scan", nimble)
    assert "name [3], 3" in page.stdout
    assert "first 20 rows" in page.stderr


@needs_core
def test_stats_as_json_covers_every_column(nimble: Path) -> None:
    rows = json_lines(run("stats", nimble, "--json"))
    assert [row["column"] for row in rows] == ["k", "name", "loc"]
    assert all(isinstance(row["size_bytes"], int) and row["size_bytes"] > 0 for row in rows)


@needs_core
def test_lookup_by_cluster_key(nimble: Path) -> None:
    found = json_lines(run("lookup", nimble, "7", "3", "1000", "--json", "-c", "k,loc"))
    assert found == [
        {"k": 7, "loc": {"lat": 3.5, "tags": ["a"]}},
        {"k": 3, "loc": {"lat": 1.5, "tags": ["a"]}},
    ]
    assert "no row" in run("lookup", nimble, "1000").stderr


@needs_core
def test_range_bounds_limit_and_order(nimble: Path) -> None:
    def keys(*arguments: str) -> list[object]:
        return [row["k"] for row in json_lines(run("range", nimble, "--json", *arguments))]

    assert keys("--lower", "3", "--upper", "6") == [3, 4, 5]
    assert keys("--lower", "3", "--upper", "6", "--inclusive", "(]") == [4, 5, 6]
    assert keys("--lower", "97") == [97, 98, 99]
    assert keys("--upper", "6", "--reverse", "--limit", "2") == [5, 4]
    assert keys("--prefix", "42") == [42]


@needs_core
def test_scan_with_filter_limit_and_count(nimble: Path) -> None:
    rows = json_lines(run("scan", nimble, "-f", "k >= 98 OR loc.lat < 1", "-c", "k", "--json"))
    assert [row["k"] for row in rows] == [0, 1, 98, 99]
    assert len(json_lines(run("scan", nimble, "--json"))) == ROWS
    assert len(json_lines(run("scan", nimble, "--json", "-n", "5"))) == 5
    assert run("scan", nimble, "-f", "k < 10", "--count").stdout == "10\n"


@needs_core
def test_csv_has_header_even_without_rows(nimble: Path) -> None:
    lines = run("scan", nimble, "--csv", "-c", "k,loc", "-n", "1").stdout.splitlines()
    assert lines == ['"k","loc"', '0,"{""lat"": 0.0, ""tags"": [""a""]}"']
    assert run("scan", nimble, "--csv", "-c", "k", "-f", "k < 0").stdout == '"k"\n'


@needs_core
def test_csv_and_json_are_printed_as_batches_come(capsys: pytest.CaptureFixture[str]) -> None:
    # --csv read all batches before it printed the first line.
    schema = pa.schema([("k", pa.int64())])
    for output, lines in (("csv", 2), ("json", 1)):
        seen: list[int] = []

        def batches(seen: list[int] = seen, output: str = output) -> Iterator[pa.RecordBatch]:
            for i in range(3):
                yield pa.record_batch({"k": [i]}, schema=schema)
                seen.append(len(capsys.readouterr().out.splitlines()))

        print_rows(batches(), schema, output)  # type: ignore[arg-type]
        assert seen == [lines, 1, 1]


@needs_core
def test_stats_tell_a_column_from_a_child_of_its_name(tmp_path: Path) -> None:
    # The bytes of loc.k were added to those of k.
    path = tmp_path / "f.nimble"
    values = random.Random(1).choices(range(104729), k=1000)
    nb.write(pa.table({"loc": [{"k": v} for v in values], "k": [1] * 1000}), path)
    rows = {row["column"]: row["size_bytes"] for row in json_lines(run("stats", path, "--json"))}
    assert rows["loc"] > 1000 > rows["k"]


@needs_core
def test_directories_are_asked_like_files(nimble: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    with nb.open(nimble) as file:
        for i in range(2):
            nb.write(file.take(range(50 * i, 50 * i + 50)), folder / f"{i}.nimble", cluster_by="k")
    for arguments in (
        ("lookup", "7", "77"),
        ("range", "--lower", "48", "--upper", "52"),
        ("scan", "--filter", "k > 97"),
    ):
        command, *rest = arguments
        of_file, of_folder = (
            run(command, nimble, *rest, "--json"),
            run(command, folder, *rest, "--json"),
        )
        assert of_folder.exit_code == 0, of_folder.output
        assert of_folder.stdout == of_file.stdout


@needs_core
def test_directories_are_inspected_and_verified(nimble: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    with nb.open(nimble) as file:
        for i in range(2):
            nb.write(file.take(range(50 * i, 50 * i + 50)), folder / f"{i}.nimble", cluster_by="k")
    assert "100 rows" in run("inspect", folder).stdout
    inspection = json.loads(run("inspect", folder, "--json").stdout)
    assert (inspection["files"], inspection["rows"]) == (2, 100)
    assert [part["kind"] for part in inspection["layout"]["children"]] == ["file", "file"]
    assert json.loads(run("schema", folder, "--json").stdout)["columns"][0]["name"] == "k"
    assert sum(row["size_bytes"] for row in json_lines(run("stats", folder, "--json"))) > 100
    assert f"{folder}: ok, 100 rows" in run("verify", folder, nimble).stdout
    damaged = bytearray((folder / "1.nimble").read_bytes())
    damaged[8:80] = bytes(byte ^ 1 for byte in damaged[8:80])
    (folder / "1.nimble").write_bytes(damaged)
    check_one_line(run("verify", folder), "1.nimble", status=1)


@needs_core
def test_negative_numbers_are_keys(tmp_path: Path) -> None:
    path = tmp_path / "n.nimble"
    nb.write(pa.table({"k": [-5.0, -1.5, 3.0], "v": [1, 2, 3]}), path, cluster_by="k")

    def values(*arguments: str) -> list[int]:
        return [row["v"] for row in json_lines(run(*arguments, "--json"))]

    assert values("lookup", path, "3", "-1.5", "-5") == [3, 2, 1]
    assert values("lookup", path, "-c", "v", "-5") == [1]
    assert values("range", path, "--lower", "-5", "--upper", "-1") == [1, 2]
    assert values("range", path, "--prefix", "-.15e1") == [2]
    wrong = run("lookup", path, "-x")
    assert wrong.exit_code == 2
    assert "No such option" in wrong.output
    result = run("lookup", path, "--json", "--", "-5")
    assert [row["v"] for row in json_lines(result)] == [1]


@needs_core
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lookup", "x\ny,1"], "around values with commas, quotes or line breaks"),
        (["lookup", '"x,1'], "around values with commas, quotes or line breaks"),
        (["lookup", ""], "has no value; the key is a, b"),
        (["range", "--prefix", ""], "has no value; the key is a, b"),
        (["range", "--lower", ""], "has no value; the key is a, b"),
        (["scan", "-c", ""], "no column given"),
        (["scan", "-c", ","], "no column given"),
        (["lookup", "x,1", "--on", " "], "no column given"),
        (["scan", "-f", "b = $q", "-p", "q=1", "-p", "r=1", "-p", "q=2"], "q is given 2 times"),
    ],
)
def test_what_is_no_key_and_no_column_is_one_line(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    path = tmp_path / "pairs.nimble"
    nb.write(pa.table({"a": ["x\ny", "x,"], "b": [1, 2]}), path, cluster_by=["a", "b"])
    result = run(arguments[0], path, *arguments[1:])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith("nimble: error:")
    assert message in result.stderr


def test_quotes_protect_commas_and_line_breaks_in_keys(tmp_path: Path) -> None:
    path = tmp_path / "pairs.nimble"
    nb.write(pa.table({"a": ["x\ny", "x,"], "b": [1, 2]}), path, cluster_by=["a", "b"])
    found = json_lines(run("lookup", path, '"x,", 2', '"x\ny",1', "--json"))
    assert [row["b"] for row in found] == [2, 1]


def test_rows_of_several_keys_are_printed_with_their_keys(nimble: Path, source: Path) -> None:
    shown = run("lookup", nimble, "7", "8", "-c", "name").stdout
    assert "k" in shown.splitlines()[1]
    assert list(json_lines(run("lookup", nimble, "7", "8", "-c", "name", "--json"))[0]) == ["name"]
    target = nimble.with_name("other.nimble")
    check_one_line(run("convert", source, target, "-c", "name", "--cluster-by", "k"), "leaves out")


@needs_core
def test_one_row_is_printed_upright(nimble: Path) -> None:
    lines = [
        line for line in run("lookup", nimble, "7").stdout.splitlines() if line.count("│") == 3
    ]
    assert [line.split("│")[1].strip() for line in lines] == ["k", "name", "loc"]
    assert [line.split("│")[2].strip() for line in lines][:2] == ["7", "name [7], 7"]


def test_version_is_printed() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout.strip()) == (0, f"nimble {nb.__version__}")


@needs_core
def test_indexes_are_dropped_from_a_file(nimble: Path, tmp_path: Path) -> None:
    assert run("add-index", nimble, "--hash-index", "name").exit_code == 0
    other = tmp_path / "other.nimble"
    result = run("drop-index", nimble, "name", "--output", other, "--json")
    assert [index["kind"] for index in json.loads(result.stdout)["indexes"]] == ["cluster"]
    assert len(nb.open(nimble).indexes) == 2
    assert len(nb.open(other).indexes) == 1
    check_one_line(run("drop-index", other, "name"), "no such index")


@needs_core
def test_convert_writes_to_a_uri(source: Path, tmp_path: Path) -> None:
    # The target was a pathlib.Path, which makes one slash of two: file:/... in the work directory.
    target = f"file://{tmp_path}/by_uri.nimble"
    assert run("convert", source, target).exit_code == 0
    assert nb.open(tmp_path / "by_uri.nimble").num_rows == ROWS
    check_one_line(run("convert", source, target), "exists", "--overwrite")


def test_explain_prints_plan_and_no_rows(nimble: Path) -> None:
    for command in (["lookup", nimble, "7"], ["range", nimble, "--lower", "7"], ["scan", nimble]):
        text = run(*command, "--explain")
        assert text.exit_code == 0, text.output
        assert "name [" not in text.stdout
        assert "children" in json.loads(run(*command, "--explain", "--json").stdout)


@needs_core
def test_convert_reports_what_it_wrote(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "made.nimble"
    result = run("convert", source, target, "--cluster-by", "k desc", "--json")
    assert json.loads(result.stdout)["num_rows"] == ROWS
    keys = [row["k"] for row in json_lines(run("scan", target, "--json", "-c", "k"))]
    assert keys == list(reversed(range(ROWS)))


@needs_core
def test_secondary_indexes_are_written_listed_and_asked(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "made.nimble"
    how = ["--hash-index", "name", "--sorted-index", "loc.lat desc, name", "--cluster-by", "k"]
    result = run("convert", source, target, *how)
    assert result.exit_code == 0, result.output
    schema = json.loads(run("schema", target, "--json").stdout)
    assert [(i["kind"], i["columns"]) for i in schema["indexes"]] == [
        ("cluster", ["k"]),
        ("hash", ["name"]),
        ("sorted", ["loc.lat desc", "name"]),
    ]
    shown = run("inspect", target).stdout
    assert "hash index on name" in shown
    assert "sorted index on loc.lat desc, name" in shown
    lookup = run("lookup", target, "name [3], 3", "--on", "name", "--json", "-c", "k")
    assert json_lines(lookup) == [{"k": 3}]
    between = run(
        "range", target, "--lower", "1.5", "--upper", "0.5", "--on", "loc.lat", "--json", "-c", "k"
    )
    assert json_lines(between) == [{"k": 3}, {"k": 2}]
    check_one_line(run("range", target, "--lower", "x", "--on", "name"), "hash (name)")
    assert run("verify", target).exit_code == 0


@needs_core
def test_indexes_are_added_to_a_file(nimble: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.nimble"
    result = run("add-index", nimble, "--hash-index", "name", "--output", more, "--json")
    made = json.loads(result.stdout)
    assert [index["kind"] for index in made["indexes"]] == ["cluster", "hash"]
    assert made["seconds"] > 0
    shown = run("add-index", more, "--sorted-index", "loc.lat desc")
    assert "sorted index on loc.lat desc: " in shown.stdout
    assert "1 added in " in shown.stdout
    check_one_line(run("add-index", more, "--hash-index", "name"), "already")
    check_one_line(run("add-index", more), "nothing to add")


@needs_core
def test_advice_as_json_and_for_people(tmp_path: Path) -> None:
    path = tmp_path / "t.nimble"
    nb.write(pa.table({"k": range(50_000), "w": [f"w {i}" for i in range(50_000)]}), path)
    log = tmp_path / "log.jsonl"
    with nb.open(path, record=log) as file:
        file.to_table(["k"], "w = 'w 7'")
    for how in (["--filter", "w = 'w 7'"], ["--on", "w"], ["--log", log]):
        result = run("advise", path, *how, "--columns", "k", "--json")
        (advice,) = json.loads(result.stdout)
        assert (advice["action"], advice["kind"], advice["columns"]) == ("add", "hash", ["w"])
        assert advice["size_bytes"] > 50_000
    shown = run("advise", path, "--filter", "w = 'w 7'", "--filter", "k > 3").stdout
    assert "hash (w)" in shown
    check_one_line(run("advise", path), "no queries: pass --filter")
    check_one_line(run("advise", path, "--filter", "z = 3"), "z")


def test_values_json_lacks_become_text() -> None:
    times = pa.record_batch(
        {
            "t": pa.array([1], type=pa.timestamp("ns")),
            "u": pa.array([1], type=pa.timestamp("ns", "UTC")),
            "d": pa.array([1], type=pa.duration("ns")),
            "c": pa.array([1], type=pa.time64("ns")),
        }
    )
    assert jsonable(plain_values(times).to_pylist()) == [
        {
            "t": "1970-01-01 00:00:00.000000001",
            "u": "1970-01-01 00:00:00.000000001Z",
            "d": 1,
            "c": "00:00:00.000000001",
        }
    ]
    values = [float("nan"), b"\xff", None, True, 1.5, {"a": (1,)}]
    assert jsonable(values) == ["nan", "ff", None, True, 1.5, {"a": [1]}]


def test_nearest_prints_rows_in_order_of_distance(tmp_path: Path) -> None:
    x = pa.FixedSizeListArray.from_arrays(pa.array([0.0, 0, 3, 4, -1, 0]), 2)
    nb.write(pa.table({"id": [1, 2, 3], "v": x}), tmp_path / "a.nimble")
    path = tmp_path / "a.nimble"
    rows = json_lines(run("nearest", path, "-1,0", "-k", "2", "--json", "--columns", "id"))
    assert rows == [{"id": 3, "_distance": 0.0}, {"id": 1, "_distance": 1.0}]
    for vector in ("[3, 4]", "3 4", "3,4"):
        shown = run("nearest", path, vector, "-k", "1", "--filter", "id > 1")
        assert shown.exit_code == 0
        assert "v" not in shown.stdout.split("\n")[0].split()
        assert "2" in shown.stdout
    assert "nearest 1" in run("nearest", path, "0,0", "-k", "1", "--explain").stdout
    check_one_line(run("nearest", path, "1,x"), "numbers between commas")
    check_one_line(run("nearest", path, "1"), "vectors of 2 numbers")
    check_one_line(run("nearest", path, "1,2", "--metric", "x"), "metric must be")
    for text in ("[0.5,1", "0.5,1]", "[[0.5,1]]"):
        check_one_line(run("nearest", path, text), "VECTOR: expected")


def test_vector_indexes_are_made(tmp_path: Path) -> None:
    path, made = tmp_path / "a.jsonl", tmp_path / "a.nimble"
    rows = [{"id": i, "my v": [float(i), 1.0]} for i in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    schema = "id bigint not null, v float[2]"
    lake = f"{tmp_path}/lake#a.b"
    how = ["--primary-key", "id", "--vector-index", "v cosine"]
    assert run("table", "create", lake, "--schema", schema, *how).exit_code == 0
    table = nb.connect(tmp_path / "lake").table("a.b")
    assert [i.metric for i in table.indexes if i.kind == "vector"] == ["cosine"]
    assert not table.schema.field("id").nullable
    table.append({"id": [1], "v": [[1.0, 2.0]]})
    shown = run("nearest", lake, "1,2", "--metric", "l2")
    check_one_line(shown, "--exact, which compares")
    assert "exact=" not in shown.stderr
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([0.0, 1, 1, 1]), 2)
    pq.write_table(pa.table({"id": [1, 2], "my v": vectors}), tmp_path / "v.parquet")
    how = ["--vector-index", "my v dot", "--overwrite"]
    assert run("convert", tmp_path / "v.parquet", made, *how).exit_code == 0
    assert [i.metric for i in nb.open(made).indexes] == ["dot"]
    assert run("drop-index", made, "my v").exit_code == 0
    assert run("add-index", made, "--vector-index", "my v").exit_code == 0
    assert [i.metric for i in nb.open(made).indexes] == ["l2"]
    check_one_line(run("add-index", made), "--vector-index")
    check_one_line(run("convert", path, tmp_path / "b.nimble", *how), "fixed")
