"""Different values of columns: sketches as other libraries have them, kept with a table."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import datasketches
import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.puffin import PuffinFile
from typer.testing import CliRunner

import nimblepy as nb
from nimblepy.cli.main import app
from nimblepy.table import iceberg as ice
from nimblepy.table.base.puffin import Blob, puffin_bytes, read_puffin
from nimblepy.table.base.sketch import MOST, Sketch, hashes_of
from nimblepy.table.base.values import internal_value

_NOW = dt.timedelta(0)


# ------------------------------------------------------------------ sketches


def _theirs(values: list[Any]) -> Any:
    made = datasketches.update_theta_sketch(12)
    for value in values:
        made.update(value)
    return made.compact()


@pytest.mark.parametrize("count", [0, 1, 2, 500, MOST, 20_000])
@pytest.mark.parametrize("kind", ["int", "float", "text"])
def test_the_library_has_the_same_hashes(count: int, kind: str) -> None:
    numbers = random.Random(count).sample(range(-(2**61), 2**61), count)
    values: list[Any] = {
        "int": numbers,
        "float": [n / 7 for n in numbers],
        "text": [f"é{n}"[: n % 25 + 2] + "x" * (n % 40) for n in numbers],
    }[kind]
    ours = Sketch().with_values(pa.array(values, pa.string() if kind == "text" else None))
    theirs = _theirs(values)
    read = Sketch.from_bytes(theirs.serialize())
    if count <= MOST:
        assert ours.hashes.tolist() == read.hashes.tolist()
        assert ours.estimate == len(set(values))
    below = min(ours.theta, read.theta)
    assert [h for h in ours.hashes if h < below] == [h for h in read.hashes if h < below]
    back = datasketches.compact_theta_sketch.deserialize(ours.to_bytes())
    assert round(back.get_estimate()) == ours.estimate
    assert back.is_empty() == (count == 0)
    union = datasketches.theta_union(12)
    union.update(back)
    union.update(_theirs(list(range(7))))
    assert union.get_result().get_estimate() >= back.get_estimate() * 0.9


_VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int32(): [-(2**31), -1, 0, 1, 2**31 - 1],
    pa.float32(): [-1.5, 0.0, -0.0, float("inf"), float("nan")],
    pa.float64(): [1e300, 0.0, -0.0, float("nan")],
    pa.date32(): [dt.date(1969, 1, 1), dt.date(2024, 2, 29)],
    pa.time64("us"): [dt.time(1, 2, 3, 4), dt.time()],
    pa.timestamp("us"): [dt.datetime(1960, 1, 1), dt.datetime(2024, 1, 1, 1, 1, 1, 1)],
    pa.timestamp("us", "UTC"): [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)],
    pa.string(): ["", "a", "ü" * 8, "x" * 16, "y" * 17, "z" * 40, "long" * 1000],
    pa.binary(): [b"", b"\0", b"\xff" * 15, b"1" * 31, b"2" * 255, b"3" * 256, b"4" * 257],
    pa.binary(5): [b"abcde", bytes(5)],
    pa.binary(20): [bytes(range(20))],
    pa.decimal128(38, 4): [Decimal(n) / 10**4 for n in (0, 1, -1, 127, 128, -128, -129, 10**30)],
    pa.decimal128(5, 0): [Decimal(n) for n in (255, 256, -256, -257, 32767, 32768, -32768)],
}


@pytest.mark.parametrize("kind", list(_VALUES), ids=str)
def test_values_are_hashed_as_iceberg_serializes_them(kind: pa.DataType) -> None:
    values = _VALUES[kind]
    array = pa.array([None, *values, None, *values], kind)
    for part in (array, array.slice(2), array.slice(1, len(values))):
        expected = set()
        for scalar in part:
            if scalar.is_valid:
                octets = ice.bound_bytes(kind, internal_value(kind, scalar))
                expected.add(mmh3.hash64(octets, 9001, signed=False)[0] >> 1)
        found = hashes_of(part)
        assert len(found) == len(part) - part.null_count
        assert set(found.tolist()) == expected


def test_estimates_are_as_good_as_is_said() -> None:
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(20):
        values = rng.integers(0, 2**62, 30_000)
        parts = [Sketch().with_values(pa.array(values[i::3])) for i in range(3)]
        whole = Sketch.merged([*parts, parts[0]])
        assert whole.to_bytes() == Sketch().with_values(pa.array(values)).to_bytes()
        errors.append(whole.estimate / len(set(values.tolist())) - 1)
    assert max(map(abs, errors)) < 0.06
    assert float(np.std(errors)) < 0.03
    assert abs(float(np.mean(errors))) < 0.015


@given(st.data())
def test_damaged_sketches_are_refused_or_are_sketches(data: st.DataObject) -> None:
    whole = Sketch().with_values(pa.array(range(data.draw(st.sampled_from([0, 1, 5, 9000])))))
    octets = bytearray(whole.to_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(octets), 40) - 1))
        octets[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(octets)))
    for some in (bytes(octets), bytes(octets[:cut])):
        try:
            found = Sketch.from_bytes(some)
        except ValueError:
            continue
        assert found.estimate >= 0
        assert Sketch.from_bytes(found.to_bytes()).estimate == found.estimate


# ------------------------------------------------------------------ Puffin files


def test_puffin_files_are_those_of_the_library() -> None:
    blobs = [
        Blob(kind=ice.SKETCH, payload=b"abc", fields=(3,), snapshot=7, sequence=2),
        Blob(kind="other", payload=b"", properties={"ü": "1"}),
    ]
    octets, footer = puffin_bytes(blobs)
    assert read_puffin(octets) == blobs
    theirs = PuffinFile(octets)
    assert [theirs.get_blob_payload(item) for item in theirs.footer.blobs] == [b"abc", b""]
    assert octets[-footer:][:4] == b"PFA1"


def test_compressed_blobs_of_other_engines() -> None:
    payload = b"12345" * 1000
    packed = pa.compress(payload, "zstd", asbytes=True)
    octets, _ = puffin_bytes([Blob(kind="x", payload=packed)])
    plain = b'"length": %d, ' % len(packed)
    for codec, readable in (("zstd", True), ("lz4", False)):
        said = plain + b'"compression-codec": "%s", ' % codec.encode()
        grown = octets.replace(plain, said)
        size = int.from_bytes(octets[-12:-8], "little") + len(said) - len(plain)
        grown = grown[:-12] + size.to_bytes(4, "little") + grown[-8:]
        if readable:
            assert read_puffin(grown)[0].payload == payload
        else:
            with pytest.raises(ValueError, match="lz4"):
                read_puffin(grown)


@given(st.data())
def test_damaged_puffin_files_are_refused_or_have_blobs(data: st.DataObject) -> None:
    octets = bytearray(puffin_bytes([Blob(kind="x", payload=b"abc", fields=(1,))])[0])
    for _ in range(data.draw(st.integers(1, 4))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read_puffin(bytes(octets[: data.draw(st.integers(0, len(octets)))]))
    except ValueError:
        return
    assert all(isinstance(blob.payload, bytes) for blob in found)


# ------------------------------------------------------------------ tables


def _rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": numbers,
            "s": [f"v{n % 37}" if n % 5 else None for n in numbers],
            "inside": [{"x": n % 11, "list": [n]} for n in numbers],
        }
    )


@pytest.fixture
def table(lake: nb.Catalog) -> nb.Table:
    return lake.create_table("a.b", _rows(0, 2000), cluster_by="k")


def _stats(table: nb.Table) -> list[str]:
    folder = Path(table.location.removeprefix("file://")) / "metadata"
    return sorted(str(path) for path in folder.glob("*.stats"))


def test_analyze(table: nb.Table, lake: nb.Catalog) -> None:
    assert table.health().distinct == {}
    found = table.analyze()
    assert found.distinct == {"k": 2000, "s": 37, "inside.x": 11}
    assert (found.snapshot, found.rows_read) == (table.snapshot, 2000)
    (described,) = table.iceberg.metadata.statistics
    assert [blob.properties for blob in described.blob_metadata] == [
        {"ndv": "2000"},
        {"ndv": "37"},
        {"ndv": "11"},
    ]
    (path,) = _stats(table)
    assert described.file_size_in_bytes == os.path.getsize(path)
    theirs = PuffinFile(Path(path).read_bytes())
    assert [blob.type for blob in theirs.footer.blobs] == ["apache-datasketches-theta-v1"] * 3
    schema = table.iceberg.schema()
    assert [schema.find_column_name(blob.fields[0]) for blob in theirs.footer.blobs] == [
        "k",
        "s",
        "inside.x",
    ]
    sketch = theirs.get_blob_payload(theirs.footer.blobs[1])
    assert datasketches.compact_theta_sketch.deserialize(sketch).get_estimate() == 37
    health = lake.table("a.b").health()
    assert health.distinct == {"k": 2000, "s": 37, "inside.x": 11}
    assert "s 37" in repr(health)
    metadata = table.metadata_location
    assert table.analyze().rows_read == 0  # nothing has changed
    assert table.metadata_location == metadata or _stats(table) != [path]


def test_only_new_files_are_read_where_rows_were_added(table: nb.Table) -> None:
    table.analyze()
    table.append(_rows(2000, 300))
    table.append(_rows(1900, 200))
    table.compact()
    found = table.analyze()
    assert (found.distinct, found.rows_read) == ({"k": 2300, "s": 37, "inside.x": 11}, 500)
    table.delete("k < 100")
    found = table.analyze(["k"])
    assert (found.distinct, found.rows_read) == ({"k": 2200}, 2400)
    assert table.health().distinct == {"k": 2200, "s": 37, "inside.x": 11}
    table.append(_rows(5000, 10))
    found = table.analyze()  # of the other columns rows have gone since
    assert (found.distinct["k"], found.rows_read) == (2210, 2410)


def test_a_column_that_was_widened_is_hashed_anew(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.table({"k": pa.array(range(10), pa.int32())}))
    table.analyze()
    with table.alter() as a:
        a.widen("k", pa.int64())
    table.append(pa.table({"k": range(5, 15)}))
    found = table.analyze()
    assert (found.distinct, found.rows_read) == ({"k": 15}, 20)


def test_a_column_that_was_widened_in_the_same_snapshot(lake: nb.Catalog) -> None:
    rows = pa.table({"k": pa.array(range(10), pa.int32()), "s": ["a", "b"] * 5})
    table = lake.create_table("a.b", rows)
    table.analyze()
    with table.alter() as a:
        a.widen("k", pa.int64())
    found = table.analyze()
    assert (found.distinct, found.rows_read) == ({"k": 10, "s": 2}, 10)
    assert table.health().distinct == {"k": 10, "s": 2}
    table.append(pa.table({"k": range(5, 15), "s": ["c"] * 10}))
    assert table.analyze().distinct == {"k": 15, "s": 3}


def test_a_sketch_of_the_same_snapshot_that_cannot_be_read(table: nb.Table) -> None:
    table.analyze()
    (path,) = _stats(table)
    octets = bytearray(Path(path).read_bytes())
    octets[octets.index(bytes([2, 3, 3])) + 1] = 4  # the version that newer libraries write
    Path(path).write_bytes(octets)
    found = table.analyze()
    assert (found.distinct, found.rows_read) == ({"k": 2000, "s": 37, "inside.x": 11}, 2000)
    assert table.analyze().rows_read == 0


def test_no_columns(table: nb.Table) -> None:
    found = table.analyze([])
    assert (found.distinct, found.rows_read) == ({}, 0)


def test_wrong_columns(table: nb.Table) -> None:
    for columns, match in ((["x"], "x"), (["inside"], "single value"), ("k", "list of names")):
        with pytest.raises(nb.InvalidArgumentError, match=match):
            table.analyze(columns)  # type: ignore[arg-type]
    assert not _stats(table)


def test_an_empty_table(lake: nb.Catalog) -> None:
    table = lake.create_table("a.b", pa.schema({"k": pa.int64()}))
    assert table.analyze().snapshot is None
    table.append(pa.table({"k": [1]}))
    table.delete("k = 1")
    assert table.analyze().distinct == {"k": 0}


@pytest.mark.parametrize("harm", ["lost", "cut", "changed"])
def test_a_lost_or_damaged_file_costs_the_figure_alone(table: nb.Table, harm: str) -> None:
    table.analyze()
    (path,) = _stats(table)
    octets = bytearray(Path(path).read_bytes())
    if harm == "lost":
        os.remove(path)
    else:
        octets[10] ^= 255
        Path(path).write_bytes(octets[:500] if harm == "cut" else octets)
    table.append(_rows(2000, 10))
    assert table.health().distinct["s"] == 37  # the metadata repeats it
    assert table.to_table().num_rows == 2010
    found = table.analyze()
    assert (found.distinct["k"], found.rows_read) == (2010, 2010)


def test_what_the_metadata_says_of_others_is_not_trusted(table: nb.Table) -> None:
    table.analyze()
    path = Path(table.metadata_location.removeprefix("file://"))
    text = json.loads(path.read_text())
    blobs = text["statistics"][0]["blob-metadata"]
    blobs[0]["properties"] = {"ndv": "-3"}
    blobs[1]["properties"] = None
    path.write_text(json.dumps(text))
    read = nb.connect(path.parents[3]).register("a.c", str(path))
    assert read.health().distinct == {"inside.x": 11}


def test_a_commit_in_between_loses_nothing(table: nb.Table, lake: nb.Catalog, between: Any) -> None:
    other = lake.table("a.b")
    between(lambda: other.append(_rows(2000, 5)))
    found = table.analyze()
    assert found.snapshot != table.snapshot  # of the one that was read
    assert table.num_rows == 2005
    assert table.health().distinct["k"] == 2000
    assert len(_stats(table)) == 1


def test_what_others_name_stays(table: nb.Table, lake: nb.Catalog, tmp_path: Path) -> None:
    """Of a copy of the catalog, or of a handle that shows what was."""
    table.analyze()
    old = lake.table("a.b")
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    nb.connect(tmp_path / "copy").table("a.b").analyze(["s"])
    table.analyze(["s"])
    assert old.health().distinct == {"k": 2000, "s": 37, "inside.x": 11}


def test_calls_for_several_columns_at_a_time(
    table: nb.Table, lake: nb.Catalog, between: Any
) -> None:
    between(lambda: lake.table("a.b").analyze(["s"]))
    assert table.analyze(["k"]).distinct == {"k": 2000}
    assert lake.table("a.b").health().distinct == {"k": 2000, "s": 37}
    between(lambda: lake.table("a.b").analyze(["inside.x"]))
    table.analyze(["k"])
    assert lake.table("a.b").health().distinct == {"k": 2000, "s": 37, "inside.x": 11}
    table.remove_orphans(older_than=_NOW)  # what was replaced
    assert len(_stats(table)) == 1


def test_a_snapshot_that_expires_meanwhile(table: nb.Table, lake: nb.Catalog, between: Any) -> None:
    def replace() -> None:
        other = lake.table("a.b")
        other.append(_rows(2000, 5))
        other.expire(keep=1)

    between(replace)
    with pytest.raises(nb.ConflictError, match="expired"):
        table.analyze()
    assert not _stats(table)


def test_statistics_outlive_their_snapshot(table: nb.Table) -> None:
    table.analyze()
    table.append(_rows(2000, 5))
    (first,) = _stats(table)
    table.tag("kept")
    table.append(_rows(3000, 5))
    planned = table.expire(keep=1, dry_run=True)
    assert first not in planned.files
    table.expire(keep=1)
    assert _stats(table) == [first]
    assert table.health().distinct == {"k": 2000, "s": 37, "inside.x": 11}
    kept = table.at(tag="kept").snapshot
    assert [item.snapshot_id for item in table.iceberg.metadata.statistics] == [kept]
    census = table.census().to_pylist()
    assert [(r["path"], r["snapshots"]) for r in census if r["kind"] == "statistics"] == [
        (first, [kept])
    ]
    assert not table.remove_orphans(older_than=_NOW).files
    table.analyze()
    second = next(path for path in _stats(table) if path != first)
    table.drop_reference("kept")
    done = table.expire(keep=1)
    assert first in done.files
    assert _stats(table) == [second]
    assert not table.remove_orphans(older_than=_NOW).files


def test_files_that_nothing_names_are_orphans(table: nb.Table) -> None:
    table.analyze()
    (path,) = _stats(table)
    stray = path.replace(".stats", "-2.stats")
    Path(stray).write_bytes(Path(path).read_bytes())
    kinds = {r["path"]: (r["kind"], r["reachable"]) for r in table.census().to_pylist()}
    assert kinds[stray] == ("statistics", False)
    assert kinds[path] == ("statistics", True)
    assert table.remove_orphans(older_than=_NOW).files == (stray,)


def test_the_command(table: nb.Table, tmp_path: Path) -> None:
    name = f"{tmp_path}/lake#a.b"
    run = CliRunner().invoke(app, ["table", "analyze", name, "-c", "s,inside.x"])
    assert run.exit_code == 0, run.output
    assert run.output.split() == ["s", "37", "inside.x", "11"]
    run = CliRunner().invoke(app, ["table", "analyze", name, "--json"])
    assert json.loads(run.output)["distinct"]["k"] == 2000


def test_advice(table: nb.Table) -> None:
    table.analyze()
    table.append(_rows(2000, 100))
    assert "analyze" not in [item.action for item in table.health().advice]
    table.append(_rows(2100, 900))
    (advice,) = [item for item in table.health().advice if item.action == "analyze"]
    assert "1,000 rows" in advice.why
    assert table.optimize()["analyze"].distinct["k"] == 3000
    assert table.health().advice == ()


def test_the_handle_that_analyzed_knows_the_counts(lake: nb.Catalog) -> None:
    # Only a new handle did: the plan of the snapshot kept the metadata it was made of.
    table = lake.create_table("a.counts", pa.table({"k": [1, 1, 2]}), cluster_by="k")
    assert table._current.distinct_keys(["k"]) is None
    table.analyze()
    assert table._current.distinct_keys(["k"]) == 2
