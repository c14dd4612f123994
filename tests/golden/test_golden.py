"""Golden files of every release read back as they were written, and today's writer makes the
same bytes as the newest release.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))

import pyarrow as pa  # noqa: E402
from golden_rows import table_json  # noqa: E402
from golden_tables import golden_files  # noqa: E402
from make_golden import expectation, rows_wanted, write  # noqa: E402

import nimblepy as nb  # noqa: E402
from second_reader import verify_file  # noqa: E402
from second_reader.tree import DECODERS  # noqa: E402

pytestmark = pytest.mark.sanitizer


def _version(directory: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in directory.name[1:].split("."))


VERSIONS = sorted((d for d in FOLDER.glob("v*") if d.is_dir()), key=_version)
FILES = [path for directory in VERSIONS for path in sorted(directory.glob("*.nimble"))]


def _newest(name: str, suffix: str) -> Path:
    path = VERSIONS[-1] / f"{name}{suffix}"
    assert path.exists(), f"no golden file {path}: run make_golden.py"
    return path


def _id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_file_reads_back_as_its_json_says(path: Path) -> None:
    want = json.loads(path.with_suffix(".json").read_text(encoding="ascii"))
    for how in ({"mode": "mapped"}, {"mode": "bytes"}):
        source = path.read_bytes() if how["mode"] == "bytes" else path
        with nb.open(source) as file:
            got = table_json(file.to_table())
        got_columns, want_columns = got.pop("columns"), want["columns"]
        assert got == {key: value for key, value in want.items() if key != "columns"}
        assert [c["name"] for c in got_columns] == [c["name"] for c in want_columns]
        for got_column, want_column in zip(got_columns, want_columns, strict=True):
            assert got_column == want_column, f"{_id(path)}: column {want_column['name']!r}"


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_indexes_of_a_file_lead_to_all_rows(path: Path) -> None:
    with nb.open(path) as file:
        file.verify()
        table = file.to_table()
        for index in file.indexes:
            on = [key.column for key in index.columns]
            counts = file.count(table.select(on), on=on, null_equals=True).to_pylist()
            assert min(counts, default=1) >= 1
            if index.kind != "hash":
                assert file.range(on=on).num_rows == file.num_rows


@pytest.mark.parametrize("name", golden_files())
def test_writer_makes_the_same_bytes(name: str, tmp_path: Path) -> None:
    golden = _newest(name, ".nimble")
    now = write(name, tmp_path).read_bytes()
    then = golden.read_bytes()
    if now == then:
        return
    if "zstd" in str(nb.open(golden).layout()):
        # frames differ between versions of libzstd; what they hold may not
        assert nb.open(now).to_table().equals(nb.open(golden).to_table())
        return
    at = next((i for i, (a, b) in enumerate(zip(now, then, strict=False)) if a != b), -1)
    pytest.fail(
        f"{golden.parent.name}/{golden.name} is not what the writer makes today: {len(now)} bytes, "
        f"it has {len(then)}, and they differ from byte {at} on. See tests/golden/README.md."
    )


@pytest.mark.parametrize("name", golden_files())
def test_expectations_are_those_of_the_tables(name: str) -> None:
    """The JSON is made from the rows given to the writer, never from what was read back."""
    golden = _newest(name, ".json")
    assert golden.read_text(encoding="ascii") == expectation(name)


def test_writer_is_deterministic_over_batches_and_threads(tmp_path: Path) -> None:
    table, keywords = golden_files()["stripes"]
    paths = [tmp_path / "a", tmp_path / "b"]
    nb.write(table, paths[0], **keywords)
    batches = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))
    nb.write(batches, paths[1], **keywords)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_clustered_rows_are_permuted_not_changed() -> None:
    table, _ = golden_files()["cluster_all"]
    assert sorted(rows_wanted("cluster_all")["row"].to_pylist()) == table["row"].to_pylist()


def test_folder_stays_small() -> None:
    assert sum(f.stat().st_size for f in FOLDER.rglob("*") if f.is_file()) < 1_500_000


def test_files_have_every_encoding() -> None:
    counts: Counter[str] = Counter()
    for path in sorted(VERSIONS[-1].glob("*.nimble")):
        report = verify_file(str(path))
        assert report.ok, str(report)
        counts += report.counts
    missing = [name for name, _ in DECODERS.values() if counts[f"encoding {name}"] == 0]
    assert missing == []
    assert counts["parts in pieces"] > 0
