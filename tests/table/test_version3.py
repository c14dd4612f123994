"""Tables of format version 3 that nimblepy writes, as we and other engines read them."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import pickle
import random
from pathlib import Path
from typing import Any

import java_iceberg
import numpy as np
import pyarrow as pa
import pytest
from duckdb_extensions import with_extensions

import nimblepy as nb
from nimblepy.errors import InvalidArgumentError
from nimblepy.table.base.deletion_vector import deletion_vector
from nimblepy.table.base.places import readable_path
from nimblepy.table.iceberg.metadata import manifest_form
from nimblepy.table.reading.deletes import positions
from nimblepy.table.reading.plan import clear_caches
from nimblepy.table.testing import commit_hooks

FORMATS = ("nimble", "parquet")


def rows_of(lake: nb.Catalog, table: nb.Table) -> dict[int, int]:
    """The rows by key, as a new handle reads them."""
    clear_caches()
    read = lake.table(table.name).to_table()
    assert len(set(read["k"].to_pylist())) == read.num_rows
    return dict(zip(read["k"].to_pylist(), read["v"].to_pylist(), strict=True))


def data(keys: Any, value: int) -> pa.Table:
    keys = list(keys)
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([value] * len(keys))})


def document(table: nb.Table) -> dict[str, Any]:
    metadata = table._metadata
    found: dict[str, Any] = json.loads(metadata.read(metadata.metadata_file))
    return found


def check_metadata(table: nb.Table) -> None:
    """Row ids of snapshots and files, and one deletion vector for a data file."""
    metadata = document(table)
    assert metadata["format-version"] == 3
    following = 0
    for snapshot in sorted(metadata["snapshots"], key=lambda item: item["sequence-number"]):
        if "first-row-id" in snapshot:  # not of version 2
            assert snapshot["first-row-id"] == following
            following += snapshot["added-rows"]
    assert metadata["next-row-id"] == following
    ranges = []
    for member in table._current.members:
        first = member.file.first_row_id
        assert first is not None
        ranges.append((first, first + member.file.rows))
        vectors = [file for file in member.deletes if file.vector is not None]
        assert len(vectors) <= 1
        for file in vectors:
            assert file.vector is not None
            assert (file.format, file.vector.data_file) == ("PUFFIN", member.file.path)
            rows = positions(file)[member.file.path]
            octets = Path(readable_path(file.path).removeprefix("file://")).read_bytes()
            assert len(octets) == file.bytes
            blob = octets[file.vector.offset :][: file.vector.size]
            assert blob == deletion_vector(rows)
    ranges.sort()
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ranges))
    assert not ranges or ranges[-1][1] <= following


@pytest.mark.parametrize("data_format", FORMATS)
def test_deletes_are_vectors(lake: nb.Catalog, data_format: Any) -> None:
    table = lake.create_table(
        "n.t", data(range(100), 0), primary_key="k", data_format=data_format, format_version=3
    )
    table.append(data(range(100, 120), 1))
    table.delete("k IN (3, 5, 101)")
    table.upsert(data([7, 8, 500], 2))
    table.delete("k = 9")
    check_metadata(table)
    expected = dict.fromkeys(range(100), 0) | dict.fromkeys(range(100, 120), 1)
    expected |= dict.fromkeys([7, 8, 500], 2)
    for key in (3, 5, 9, 101):
        del expected[key]
    assert rows_of(lake, table) == expected
    deletes = [file for member in table._current.members for file in member.deletes]
    assert len(deletes) == 2
    # The file of the first delete had two vectors, and one of them was replaced.
    assert len({file.path for file in deletes}) == 2
    table.compact()
    check_metadata(table)
    assert rows_of(lake, table) == expected
    assert not [file for member in table._current.members for file in member.deletes]


@pytest.mark.parametrize("data_format", FORMATS)
def test_upgrade_keeps_rows_and_gives_them_ids(lake: nb.Catalog, data_format: Any) -> None:
    table = lake.create_table("n.t", data(range(100), 0), primary_key="k", data_format=data_format)
    table.append(data(range(100, 120), 1))
    table.delete("k IN (3, 5, 101)")
    other = lake.table("n.t")
    with table.alter() as a:
        a.upgrade(3)
    assert document(table)["next-row-id"] == 0
    expected = dict.fromkeys(range(100), 0) | dict.fromkeys(range(100, 120), 1)
    for key in (3, 5, 101):
        del expected[key]
    assert rows_of(lake, table) == expected
    other.delete("k = 4")  # a handle that has seen version 2
    del expected[4]
    check_metadata(other)
    assert rows_of(lake, table) == expected
    # The vector of one file has its older positions; the other file still has a delete file.
    kinds = [[file.format for file in member.deletes] for member in other._current.members]
    name = "NIMBLEPY" if data_format == "nimble" else "PARQUET"
    assert sorted(map(sorted, kinds)) == sorted([[name], sorted([name, "PUFFIN"])])
    other.convert_deletes()
    check_metadata(other)
    kinds = [[file.format for file in member.deletes] for member in other._current.members]
    assert kinds == [["PUFFIN"], ["PUFFIN"]]
    assert rows_of(lake, table) == expected


def test_wrong_versions_are_refused(lake: nb.Catalog) -> None:
    for version in (1, 4, "3", None, True):
        with pytest.raises(InvalidArgumentError, match="format version"):
            lake.create_table("n.t", data([1], 0), format_version=version)  # type: ignore[arg-type]
    table = lake.create_table("n.t", data([1], 0), format_version=3)
    with pytest.raises(InvalidArgumentError, match="cannot be changed to 2"), table.alter() as a:
        a.upgrade(2)
    with table.alter() as a:
        a.upgrade(3)


def test_names_of_lineage_are_reserved(lake: nb.Catalog) -> None:
    named = pa.table({"_row_id": [7, 8]})
    with pytest.raises(InvalidArgumentError, match="reserves the name '_row_id'"):
        lake.create_table("n.t", named, format_version=3)
    old = lake.create_table("n.old", named)
    assert old.to_table(["_row_id"])["_row_id"].to_pylist() == [7, 8]
    with pytest.raises(InvalidArgumentError, match="reserves the name '_row_id'"), old.alter() as a:
        a.upgrade(3)
    table = lake.create_table("n.t", data([1], 0), format_version=3)
    with pytest.raises(InvalidArgumentError, match="reserved"), table.alter() as a:
        a.add_column("_row_id", pa.int64())
    with pytest.raises(InvalidArgumentError, match="_row_id"):
        lake.create_table("n.two", data([1], 0)).to_table(["_row_id"])


def test_new_columns_must_not_have_names_of_lineage(lake: nb.Catalog) -> None:
    """Row ids were lost: the new column of that name hid them."""
    table = lake.create_table("n.t", data([1, 2], 0), primary_key="k", format_version=3)
    before = lineage_of(table)
    for name in ("_row_id", "_last_updated_sequence_number"):
        new = pa.table({"k": [1], name: pa.array([0], pa.int64())})
        for change in (table.append, table.upsert, table.overwrite):
            with pytest.raises(InvalidArgumentError, match=f"'{name}' is reserved"):
                change(new, new_columns="add")
    assert lineage_of(lake.table("n.t")) == before


@pytest.mark.parametrize("how", ["renamed", "dropped"])
@pytest.mark.parametrize("values", [[7, 7, 7], ["a", "b", "c"]], ids=["numbers", "text"])
@pytest.mark.parametrize("data_format", FORMATS)
def test_files_have_a_column_with_a_name_of_lineage(
    lake: nb.Catalog, data_format: Any, values: list[Any], how: str
) -> None:
    """Upserts took its values for the ids of the rows."""
    rows = {"k": [0, 1, 2], "v": [0, 0, 0], "_row_id": values}
    table = lake.create_table("n.t", pa.table(rows), primary_key="k", data_format=data_format)
    with table.alter() as a:
        if how == "renamed":
            a.rename_column("_row_id", "r")
        else:
            a.drop_column("_row_id")
    with table.alter() as a:
        a.upgrade(3)
    table.append(data([3], 0))
    before = lineage_of(table)
    table.upsert(data([1], 1))
    table.merge(data([2], 1), on="k").when_matched(update=True).execute()
    with table.transaction() as tx:
        tx.upsert(data([0], 1))
    table.compact()
    after = lineage_of(lake.table("n.t"))
    assert {key: row[1] for key, row in after.items()} == {
        key: row[1] for key, row in before.items()
    }
    if how == "renamed":
        assert table.to_table(["k", "r"], filter="k = 2")["r"].to_pylist() == [values[2]]


@pytest.mark.parametrize("what", ["alter", "append", "upgrade"])
def test_an_upgrade_races_a_column_with_its_name(lake: nb.Catalog, what: str) -> None:
    """Both were committed, because an upgrade does not change the schema."""
    table = lake.create_table("n.t", data([1, 2], 0), primary_key="k")
    other = lake.table("n.t")
    column = pa.table({"k": [3], "_row_id": pa.array([0], pa.int64())})

    def upgrade(table: nb.Table) -> None:
        with table.alter() as a:
            a.upgrade(3)

    def add(table: nb.Table) -> None:
        with table.alter() as a:
            a.add_column("_row_id", pa.int64())

    second, first = {
        "alter": (add, upgrade),
        "append": (lambda table: table.append(column, new_columns="add"), upgrade),
        "upgrade": (upgrade, add),
    }[what]
    left = [first]

    def before_swap() -> None:
        if left:
            left.pop()(other)

    with (
        commit_hooks(before_swap=before_swap),
        pytest.raises(nb.ConflictError, match="reserve") as caught,
    ):
        second(table)
    assert caught.value.kind == "schema"
    now = lake.table("n.t")
    assert now._metadata.has_row_ids == (what != "upgrade")
    assert ("_row_id" in now.schema.names) == (what == "upgrade")
    assert now.num_rows == 2
    assert not now.remove_orphans(older_than=dt.timedelta(0), dry_run=True).files


@pytest.mark.parametrize("data_format", FORMATS)
def test_rows_are_found_by_lineage(lake: nb.Catalog, data_format: Any) -> None:
    table = lake.create_table(
        "n.t", data(range(10), 0), primary_key="k", data_format=data_format, format_version=3
    )
    table.upsert(data([3, 20], 1))
    assert table.schema.names == ["k", "v"]
    assert table.to_table().column_names == ["k", "v"]
    newer = table.to_table(["k"], filter="_last_updated_sequence_number > 1 AND k < 100")
    assert newer["k"].to_pylist() == [3, 20]
    assert table.to_table(["v", "_row_id"], filter="_row_id = 3").to_pylist() == [
        {"v": 1, "_row_id": 3}
    ]
    assert table.count_rows("_last_updated_sequence_number = 1") == 9
    assert table.range(3, 5, columns=["_row_id"])["_row_id"].to_pylist() == [3, 4]
    assert table.head(2, ["k", "_row_id"]).to_pylist()[1] == {"k": 1, "_row_id": 1}
    shipped = pickle.loads(pickle.dumps(table._current))
    assert shipped.read(shipped.all_rows(), ("_row_id",)) == table.to_table(["_row_id"])
    old = table.at(snapshot=table.snapshots()["snapshot_id"][0].as_py())
    assert old.get(3, LINEAGE) == {
        "k": 3, "v": 0, "_row_id": 3, "_last_updated_sequence_number": 1
    }  # fmt: skip


def by_key(read: pa.Table) -> list[dict[str, Any]]:
    assert read.column_names == ["k", "v", "e"]
    return sorted(read.to_pylist(), key=lambda row: row["k"])


@pytest.mark.parametrize("layout", [None, nb.OTree(["k", "v"])], ids=["draws", "otree"])
@pytest.mark.parametrize("data_format", FORMATS)
def test_every_reading_filters_by_lineage(
    lake: nb.Catalog, data_format: Any, layout: nb.OTree | None
) -> None:
    """Reads of all columns had two more columns than announced; others did not know the names."""
    vectors = pa.array([[float(k), 0.0] for k in range(10)], pa.list_(pa.float32(), 2))
    made = data(range(10), 0).append_column("e", vectors)
    table = lake.create_table(
        "n.t", made, primary_key="k", layout=layout, data_format=data_format, format_version=3
    )
    table.upsert(made.slice(3, 1).set_column(1, "v", pa.array([1])))
    table.delete("k = 5")
    rows = table.to_table([*LINEAGE, "e"]).to_pylist()
    numbers = {row["k"]: row["_row_id"] for row in rows}
    some = f"_row_id IN ({numbers[3]}, {numbers[7]})"
    for filter, keys in [(some, [3, 7]), ("_last_updated_sequence_number > 1", [3])]:
        expected = [{n: row[n] for n in ("k", "v", "e")} for row in rows if row["k"] in keys]
        expected.sort(key=lambda row: row["k"])

        assert by_key(table.to_table(filter=filter)) == expected
        assert by_key(table.scan(filter=filter).to_reader().read_all()) == expected
        assert by_key(table.sample(1.0, filter=filter)) == expected
        assert by_key(table.sample(n=10, filter=filter)) == expected
        for columns in (["k", "_row_id"], ["_row_id", "k"]):
            sample = table.sample(1.0, columns=columns, filter=filter)
            assert sample.column_names == columns
            assert dict(
                zip(sample["k"].to_pylist(), sample["_row_id"].to_pylist(), strict=True)
            ) == {key: numbers[key] for key in keys}
        if data_format == "nimble":  # Parquet files have no vectors
            near = table.nearest([0.0, 0.0], 10, filter=filter, columns=["k", "_row_id"])
            assert near.select(["k", "_row_id"]).to_pylist() == [
                {"k": key, "_row_id": numbers[key]} for key in keys
            ]
        with table.transaction() as tx:
            assert by_key(tx.to_table(filter=filter)) == expected
    assert table.sample(1.0, columns=["k", "_row_id"]).num_rows == 9


@pytest.mark.parametrize("data_format", FORMATS)
def test_rows_are_deleted_by_lineage(lake: nb.Catalog, data_format: Any) -> None:
    table = lake.create_table(
        "n.t", data(range(10), 0), primary_key="k", data_format=data_format, format_version=3
    )
    table.upsert(data([3, 20], 1))
    assert table.delete("_row_id = 3").rows_deleted == 1
    assert table.delete("_row_id = 3").rows_deleted == 0
    done = table.overwrite(data([30, 31], 2), filter="_last_updated_sequence_number > 1")
    assert (done.rows_inserted, done.rows_deleted) == (2, 1)
    kept = dict.fromkeys([0, 1, 2, 4, 5, 6, 7, 8, 9], 0)
    assert rows_of(lake, table) == kept | {30: 2, 31: 2}
    # another commit moves the row with the id to another file
    other = lake.table("n.t")
    left = [lambda: other.upsert(data([4], 3))]
    with commit_hooks(before_swap=lambda: left.pop()() if left else None):
        assert table.delete("_row_id = 4 OR _last_updated_sequence_number >= 6").rows_deleted == 1
    del kept[4]
    assert rows_of(lake, table) == kept | {30: 2, 31: 2}
    old = lake.create_table("n.old", data([1], 0))
    with pytest.raises(InvalidArgumentError, match="unknown column '_row_id'"):
        old.delete("_row_id = 1")


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("primary_key", [None, "k"])
def test_a_transaction_deletes_by_lineage(
    lake: nb.Catalog, data_format: Any, primary_key: str | None
) -> None:
    table = lake.create_table(
        "n.t",
        data(range(10), 0),
        primary_key=primary_key,
        data_format=data_format,
        format_version=3,
    )
    table.append(data([20, 21], 1))
    with table.transaction() as t:
        t.delete("_row_id IN (3, 4) OR _last_updated_sequence_number > 1")
        assert t.num_rows == 8
        t.append(data([30], 2))
    assert rows_of(lake, table) == dict.fromkeys([0, 1, 2, 5, 6, 7, 8, 9], 0) | {30: 2}
    # another commit moves a row that passes
    other = lake.table("n.t")
    late = table.transaction()
    late.delete("_row_id < 2")
    other.delete("k = 1")
    other.append(data([1], 5))
    with pytest.raises(nb.ConflictError):
        late.__exit__()
    assert rows_of(lake, table)[0] == 0


LINEAGE = ["k", "v", "_row_id", "_last_updated_sequence_number"]
# For each key: value, row id, and sequence number of the last update.
Lineage = dict[int, tuple[int, int, int]]


def lineage_of(table: nb.Table) -> Lineage:
    rows = table.to_table(LINEAGE)
    assert rows.column_names == LINEAGE
    found: Lineage = {row["k"]: tuple(list(row.values())[1:]) for row in rows.to_pylist()}  # type: ignore[misc]
    assert len(found) == rows.num_rows
    assert len({number for _, number, _ in found.values()}) == len(found)
    return found


def check_lineage(before: Lineage, after: Lineage, first: int, sequence: int) -> None:
    """Rows keep their ids, and what did not change keeps its sequence number.

    Args:
        first: the next row id before the change.
        sequence: the sequence number of the change.
    """
    for key, (value, number, last) in after.items():
        if key not in before:
            assert number >= first
            assert last == sequence
            continue
        old_value, old_number, old_last = before[key]
        assert number == old_number, key
        assert last == (old_last if value == old_value else sequence), key


class History:
    """Random changes of a table, and of its rows in a dictionary."""

    def __init__(self, lake: nb.Catalog, seed: int, data_format: Any) -> None:
        self.lake = lake
        self.rng = rng = random.Random(seed)
        self.rows: dict[int, int] = {}
        keys = rng.sample(range(300), rng.randrange(1, 200))
        self.table = lake.create_table(
            f"n.t{seed}",
            data(keys, 0),
            primary_key="k",
            partition_by=rng.choice([[], ["bucket(3, k)"]]),
            data_format=data_format,
            format_version=rng.choice([2, 3, 3]),
        )
        self.rows = dict.fromkeys(keys, 0)
        self.values = 0
        self.may_convert = data_format == "nimble"

    @property
    def version(self) -> int:
        return self.table._metadata.format_version

    def step(self) -> None:
        rng, table = self.rng, self.table
        self.values += 1
        kinds = ["append", "upsert", "upsert", "delete", "delete", "merge", "transaction", "rare"]
        what = rng.choice(kinds)
        keys = rng.sample(range(300), rng.choice([1, 5, 100]))
        if what == "append":
            keys = [key + 1000 * self.values for key in keys]
            table.append(data(keys, self.values))
            self.rows |= dict.fromkeys(keys, self.values)
        elif what == "upsert":
            table.upsert(data(keys, self.values))
            self.rows |= dict.fromkeys(keys, self.values)
        elif what == "delete":
            table.delete(f"k IN ({', '.join(map(str, keys))})")
            for key in keys:
                self.rows.pop(key, None)
        elif what == "merge":
            table.merge(data(keys, self.values), on="k").when_matched(update=True).execute()
            self.rows |= {key: self.values for key in keys if key in self.rows}
        elif what == "transaction":
            self.transaction(keys)
        elif self.version == 2:
            with table.alter() as a:
                a.upgrade(3)
        else:
            upkeep = [table.compact, table.convert_deletes, table.rewrite_manifests, self.reindex]
            if self.may_convert:
                upkeep.append(self.convert)
            rng.choice(upkeep)()

    def transaction(self, keys: list[int]) -> None:
        """Upserts and deletes rows. No key is inserted again after it was deleted."""
        deleted: set[int] = set()
        written: set[int] = set()
        with self.table.transaction() as t:
            for _ in range(self.rng.choice([1, 2, 3])):
                some = self.rng.sample(keys, self.rng.randrange(1, len(keys) + 1))
                if self.rng.random() < 0.3:
                    t.delete(keys=some)
                    deleted |= {*some}
                else:
                    some = [key for key in some if key not in deleted]
                    t.upsert(data(some, self.values))
                    written |= {*some}
        for key in deleted:
            self.rows.pop(key, None)
        self.rows |= dict.fromkeys(written - deleted, self.values)

    def lost_step(self) -> tuple[Lineage | None, int]:
        """Makes a change that loses its race to another one.

        Returns the lineage and the next row id after the other change, if rows have ids then.
        """
        other = self.lake.table(self.table.name)
        seen: tuple[Lineage | None, int] = None, 0
        todo = [self.rng.choice(["upgrade", "upsert", "delete", "compact"])]

        def overtake() -> None:
            nonlocal seen
            if not todo:
                return
            what = todo.pop()
            keys = self.rng.sample(range(300), self.rng.choice([1, 30]))
            if what == "upgrade":
                with other.alter() as a:
                    a.upgrade(3)
            if what in ("upgrade", "upsert"):
                other.upsert(data(keys, -self.values))
                self.rows |= dict.fromkeys(keys, -self.values)
            elif what == "delete":
                other.delete(keys=keys)
                for key in keys:
                    self.rows.pop(key, None)
            else:
                other.compact()
            now = document(other)
            if now["format-version"] == 3 and now["next-row-id"]:
                seen = lineage_of(other), now["next-row-id"]

        with commit_hooks(before_swap=overtake):
            self.step()
        return seen

    def convert(self) -> None:
        try:
            self.table.convert("parquet")
            self.may_convert = False
        except nb.ConflictError:  # another commit was first
            self.table.refresh()

    def reindex(self) -> None:
        if self.may_convert and self.version == 3:
            self.table.add_index(nb.HashIndex(["v"]))
            self.table.drop_index(["v"])

    def end(self) -> None:
        if self.version == 2:
            with self.table.alter() as a:
                a.upgrade(3)
        self.table.append(data([-1], 0))
        self.rows[-1] = 0


def duckdb_lineage(table: nb.Table) -> Lineage:
    with with_extensions("avro", "iceberg") as connection:
        location = table.metadata_location.removeprefix("file://")
        scan = f"SELECT {', '.join(LINEAGE)} FROM iceberg_scan('{location}')"
        return {k: (v, number, last) for k, v, number, last in connection.sql(scan).fetchall()}


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("count", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_random_histories(lake: nb.Catalog, data_format: Any, count: int) -> None:
    for seed in range(count):
        history = History(lake, seed, data_format)
        table = history.table
        before: Lineage | None = None
        first = 0
        for _ in range(15):
            if history.rng.random() < 0.4:
                before, first = history.lost_step()
            else:
                history.step()
            assert rows_of(lake, table) == history.rows, seed
            now = document(table)
            if history.version == 3 and now["next-row-id"]:
                check_metadata(table)
                after = lineage_of(table)
                if before is not None:
                    check_lineage(before, after, first, now["last-sequence-number"])
                before, first = after, now["next-row-id"]
                keys = history.rng.sample(sorted(history.rows), min(5, len(history.rows)))
                for key in keys:
                    row = table.get(key, LINEAGE)
                    assert tuple(row.values()) == (key, *after[key])
                looked = table.lookup(keys, columns=LINEAGE[2:]).to_pylist()
                assert [tuple(row.values()) for row in looked] == [after[key][1:] for key in keys]


@pytest.mark.parametrize("count", [5, pytest.param(500, marks=pytest.mark.slow)])
def test_duckdb_reads_the_same(lake: nb.Catalog, count: int) -> None:
    for seed in range(1000, 1000 + count):
        history = History(lake, seed, "parquet")
        for _ in range(8):
            history.step()
        history.end()
        assert duckdb_lineage(history.table) == lineage_of(history.table), seed
        assert rows_of(lake, history.table) == history.rows


@pytest.mark.skipif(java_iceberg.missing() is not None, reason=str(java_iceberg.missing()))
@pytest.mark.parametrize("count", [5, pytest.param(500, marks=pytest.mark.slow)])
def test_java_reads_the_same(lake: nb.Catalog, tmp_path: Path, count: int) -> None:
    with java_iceberg.java(tmp_path) as jvm:
        for seed in range(2000, 2000 + count):
            history = History(lake, seed, "parquet")
            for _ in range(8):
                history.step()
            history.end()
            read = java_iceberg.rows_of(jvm, history.table.metadata_location, LINEAGE)
            theirs = {k: (v, number, last) for k, v, number, last in read}
            assert len(theirs) == len(read)
            assert theirs == lineage_of(history.table), seed
            assert rows_of(lake, history.table) == history.rows


@pytest.mark.skipif(java_iceberg.missing() is not None, reason=str(java_iceberg.missing()))
def test_vectors_have_the_bytes_of_java(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sets = [
        [0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 5, 6, 7, 8],
        range(4096), range(4097), range(0, 8192, 2), range(0, 8194, 2), range(65536),
        range(200_000), [2**32], [5, 2**33 + 1], [65535, 65536],
        [x for x in range(65536) if x % 32 != 31], [x for x in range(65536) if x % 33 != 31],
    ]  # fmt: skip
    for most, size in ((100, 20), (10_000, 3000), (70_000, 30_000), (10**6, 10_000), (10**7, 500)):
        sets += [np.unique(rng.integers(0, most, size)).tolist() for _ in range(3)]
    with java_iceberg.java(tmp_path) as jvm:
        for rows in sets:
            octets = np.array(rows, dtype=">i8").tobytes()
            numbers = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Long.TYPE, len(rows))
            jvm.java.nio.ByteBuffer.wrap(octets).asLongBuffer().get(numbers)
            listed = jvm.java.util.stream.LongStream.of(numbers).boxed().toList()
            iterable = jvm.org.apache.iceberg.io.CloseableIterable
            some = iterable.combine(listed, iterable.empty())
            index = jvm.org.apache.iceberg.deletes.Deletes.toPositionIndex(some)
            theirs = bytes(index.serialize().array())
            assert deletion_vector(np.array(rows, dtype=np.uint64)) == theirs, list(rows)[:10]


def test_entries_of_vectors_have_the_bytes_of_the_library(lake: nb.Catalog) -> None:
    rows = pa.table({"k": range(9), "d": pa.array([None, *range(8)], pa.date32())})
    for number, by in enumerate(([], ["d"], ["bucket(2, k)", "d"])):
        table = lake.create_table(f"n.t{number}", rows, partition_by=by, format_version=3)
        table.delete("k < 4")
        if not by:
            table.delete("k = 5")
        metadata = table._metadata
        head = metadata.head()
        assert head is not None
        for manifest in metadata.manifests(head):
            form = manifest_form(metadata, manifest.spec_id)
            for entry in metadata.all_entries(manifest):
                assert form.encode(entry) == form.records.encode(entry)


@pytest.mark.parametrize("data_format", FORMATS)
def test_writers_that_lose_a_race_merge_their_vectors(lake: nb.Catalog, data_format: Any) -> None:
    rng = random.Random(0)
    table = lake.create_table(
        "n.t", data(range(60), 0), primary_key="k", data_format=data_format, format_version=3
    )
    other = lake.table("n.t")
    expected = dict.fromkeys(range(60), 0)
    before = lineage_of(table)
    for value in range(1, 8):
        first = document(table)["next-row-id"]
        theirs, ours = (rng.sample(range(80), 6) for _ in range(2))
        overtaking = [lambda theirs=theirs, value=value: other.upsert(data(theirs, -value))]
        if value % 3 == 0:
            overtaking = [other.compact]
            theirs = []
        with commit_hooks(before_swap=lambda todo=overtaking: todo and todo.pop()()):
            if value % 2:
                done = table.upsert(data(ours, value))
            else:
                done = table.delete(f"k IN ({', '.join(map(str, ours))})")
        assert done.retries == (1 if theirs else done.retries)
        expected |= dict.fromkeys(theirs, -value)
        for key in ours:
            expected.pop(key, None)
        if value % 2:
            expected |= dict.fromkeys(ours, value)
        assert rows_of(lake, table) == expected
        check_metadata(table)
        after = lineage_of(table)
        for key, (_, number, _) in after.items():
            assert number == before[key][1] if key in before else number >= first
        before = after


@pytest.mark.parametrize("data_format", FORMATS)
def test_changes_are_those_of_version_2(lake: nb.Catalog, data_format: Any) -> None:
    for seed in range(3):
        tables = []
        for version in (2, 3):
            rng = random.Random(seed)
            table = lake.create_table(
                f"n.t{seed}v{version}",
                data(range(100), 0),
                primary_key="k",
                data_format=data_format,
                format_version=version,
            )
            snapshots = [table.snapshot]
            for value in range(1, 8):
                keys = rng.sample(range(140), rng.choice([1, 7, 40]))
                steps = [
                    lambda keys=keys, value=value, table=table: table.upsert(data(keys, value)),
                    lambda keys=keys, table=table: table.delete(f"k IN ({str(keys)[1:-1]})"),
                    table.compact,
                ]
                rng.choice(steps)()
                snapshots.append(table.snapshot)
            tables.append((table, snapshots))
        (old, old_snapshots), (new, new_snapshots) = tables
        for before, after in zip(old_snapshots, new_snapshots, strict=True):
            read = [
                sorted(
                    (row["_change"], row["k"], row["v"])
                    for batch in table.changes(since)
                    for row in batch.to_pylist()
                )
                for table, since in ((old, before), (new, after))
            ]
            assert read[0] == read[1]
