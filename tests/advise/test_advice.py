"""What is advised is built: its size and the reads it saves are those that were promised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb
from nimblepy import _core
from nimblepy.file.write import index_specs
from nimblepy.schema.types import IoStats

pytestmark = pytest.mark.cost

N = 400_000
RNG = np.random.default_rng(21)
TABLE = pa.table(
    {
        "id": np.arange(N),
        "email": [f"user{i:07}@example.org" for i in RNG.permutation(N)],
        "city": np.array([f"city {i}" for i in range(5000)])[RNG.integers(0, 5000, N)],
        "score": RNG.random(N),
        "flag": RNG.integers(0, 3, N),
        "noise": RNG.integers(0, 1 << 60, N),
    }
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("advice") / "t.nimble")
    nb.write(TABLE, path, cluster_by="id", presorted=True)
    return path


def _read(path: str, **how: Any) -> IoStats:
    """What one filtered scan reads of a file that has just been opened."""
    with nb.open(path, mmap=False) as file:
        file.reset_io_stats()
        file.scan(**how).to_table()
        return file.io_stats


def _only(advice: list[nb.IndexAdvice], action: str) -> nb.IndexAdvice:
    (found,) = [a for a in advice if a.action == action]
    return found


@pytest.mark.parametrize(
    ("text", "columns", "kind"),
    [
        ("email = 'user0001234@example.org'", ["noise"], "hash"),
        ("city = 'city 77'", ["id", "noise"], "hash"),
        ("score BETWEEN 0.25 AND 0.2503", ["id", "noise"], "sorted"),
        ("city IN ('city 1', 'city 2')", ["id"], "hash"),
        ("email LIKE 'user00012%'", ["noise"], "sorted"),
        ("flag = 1 AND score < 0.001", ["noise"], "sorted"),
    ],
)
def test_advised_index_has_the_size_and_saves_the_reads(
    path: str, tmp_path: Path, text: str, columns: list[str], kind: str
) -> None:
    advice = nb.advise_indexes(path, [{"filter": text, "columns": columns}])
    found = _only(advice, "add")
    assert (found.kind, found.questions, found.times) == (kind, 1, 1)
    assert found.index is not None
    better = str(tmp_path / "better.nimble")
    (_, info) = nb.add_index(path, found.index, output=better)
    assert abs(found.size_bytes / info.size_bytes - 1) < 0.05
    before = _read(path, columns=columns, filter=text)
    after = _read(better, columns=columns, filter=text)
    assert after.bytes_read < before.bytes_read
    assert abs(found.bytes_before / before.bytes_read - 1) < 0.25
    assert abs(found.reads_before - before.reads) <= max(3, before.reads / 4)
    assert abs(found.reads_after - after.reads) <= max(4, after.reads / 2)
    assert found.bytes_after < 2 * after.bytes_read + 200_000
    # Now that it is there nothing is left to do.
    again = nb.advise_indexes(better, [{"filter": text, "columns": columns}])
    assert [a.action for a in again] == ["keep"]


def test_lookups_are_advised_a_hash_index_and_cost_what_was_said(path: str, tmp_path: Path) -> None:
    columns = ["id", "noise"]
    (found,) = nb.advise_indexes(path, [{"on": "email", "columns": columns, "times": 9}])
    assert (found.action, found.kind, found.times) == ("add", "hash", 9)
    better = str(tmp_path / "better.nimble")
    nb.add_index(path, found.index, output=better)
    with nb.open(better, mmap=False) as file:
        file.reset_io_stats()
        assert file.lookup(["user0000077@example.org"], on="email", columns=columns).num_rows == 1
        assert abs(file.io_stats.reads - found.reads_after) <= 1
        assert file.io_stats.bytes_read < 2 * found.bytes_after


def test_what_does_not_pay_is_said_with_the_reason(path: str) -> None:
    advice = nb.advise_indexes(
        path, ["flag = 1", "id = 7", "id < 20 AND noise > 5", {"on": "id"}, "noise <> 5"]
    )
    assert {a.action for a in advice} == {"none"}
    why = {a.columns: a.why for a in advice}
    assert ", 33." in why["flag",]
    assert why["id",] == "the cluster (id) index answers it already"
    assert why["id", "noise"] == "the cluster (id) index answers it already"
    assert why[()] == "it tests nothing that an index answers"


def test_what_other_questions_cost_does_not_hide_what_an_index_saves(path: str) -> None:
    often = {"filter": "flag = 1", "times": 1000}  # no index helps it
    advice = nb.advise_indexes(path, ["email = 'user0001234@example.org'", often])
    added = _only(advice, "add")
    assert (added.kind, added.columns) == ("hash", ("email",))


def test_zone_maps_that_leave_most_rows_are_no_reason(tmp_path: Path) -> None:
    # the first zone has no 5: zone maps leave that one out, of many
    codes = np.tile(np.arange(7), N // 7 + 1)[:N]
    codes[:8192] = 0
    path = str(tmp_path / "t.nimble")
    nb.write(pa.table({"id": np.arange(N), "code": codes}), path, cluster_by="id", presorted=True)
    told = _only(nb.advise_indexes(path, ["code = 5"]), "none").why
    assert "rows pass" in told
    assert "zone maps" not in told


def test_zone_maps_that_answer_are_enough(tmp_path: Path) -> None:
    path = str(tmp_path / "t.nimble")
    nb.write(pa.table({"day": np.arange(N) // 1000, "v": np.arange(N)}), path)
    (found,) = nb.advise_indexes(path, ["day = 17"])
    assert (found.action, found.columns) == ("none", ("day",))
    assert found.why.startswith("zone maps leave")


def test_indexes_that_nobody_uses_are_to_be_dropped(path: str, tmp_path: Path) -> None:
    better = str(tmp_path / "better.nimble")
    nb.add_index(path, [nb.HashIndex("email"), nb.SortedIndex("noise")], output=better)
    advice = nb.advise_indexes(better, [{"on": "email"}, "email = 'x'"])
    keep, drop = _only(advice, "keep"), _only(advice, "drop")
    assert (keep.kind, keep.columns, keep.questions) == ("hash", ("email",), 2)
    assert (drop.kind, drop.columns) == ("sorted", ("noise",))
    assert drop.why == "no question of this workload uses it"
    sizes = {i.columns[0].column: i.size_bytes for i in nb.open(better).indexes}
    assert (keep.size_bytes, drop.size_bytes) == (sizes["email"], sizes["noise"])


def test_one_sorted_index_serves_points_and_ranges(path: str) -> None:
    workload: list[Any] = ["score BETWEEN 0.25 AND 0.2503", {"on": "score"}, "score = 0.5"]
    (found,) = nb.advise_indexes(path, workload)
    assert (found.action, found.kind, found.questions) == ("add", "sorted", 3)


def test_a_composite_index_where_no_single_column_is_enough(path: str) -> None:
    advice = nb.advise_indexes(path, ["flag = 1 AND city = 'city 5'"])
    assert [(a.action, a.kind, a.columns) for a in advice] in (
        [("add", "hash", ("city", "flag"))],
        [("add", "hash", ("city",))],
    )


def test_a_recorded_log_gives_the_same_advice(path: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with nb.open(path, record=log) as file:
        for i in range(5):
            file.to_table(["noise"], f"email = 'user{i:07}@example.org'")
            file.to_table(["id"], f"score BETWEEN {i / 10} AND {i / 10 + 0.0002}")
            file.to_table(["id"], "flag = 1")
    advice = nb.advise_indexes(path, str(log))
    added = {(a.kind, a.columns) for a in advice if a.action == "add"}
    assert added == {("hash", ("email",)), ("sorted", ("score",))}
    assert _only(advice, "none").columns == ("flag",)
    assert all(a.times == 5 for a in advice)
    assert "email" in str(advice)
    assert "flag" in str(advice)


def test_few_rows_need_no_index(tmp_path: Path) -> None:
    path = str(tmp_path / "t.nimble")
    nb.write(pa.table({"a": [1, 2, 3]}), path)
    (found,) = nb.advise_indexes(path, ["a = 1"])
    assert (found.action, found.why) == ("none", "the file has only 3 rows")
    nb.write(pa.table({"a": pa.array([], pa.int64())}), path)
    assert nb.advise_indexes(path, ["a = 1", {"on": "a"}])[0].action == "none"
    assert nb.advise_indexes(path, []) == []


@pytest.mark.parametrize(
    "index",
    [
        *(nb.HashIndex("flag"), nb.SortedIndex("flag"), nb.SortedIndex("email")),
        *(nb.SortedIndex(["city", "score"]), nb.HashIndex(["city", "flag"])),
        *(nb.SortedIndex(nb.SortKey("noise", descending=True)), nb.SortedIndex("id")),
        nb.HashIndex("noise", bloom_bits_per_key=None, load_factor=0.5),
    ],
    ids=str,
)
def test_estimated_sizes_are_those_of_the_index(path: str, tmp_path: Path, index: Any) -> None:
    (_, info) = nb.add_index(path, index, output=tmp_path / "t.nimble")
    with nb.open(path) as file:
        (spec,) = index_specs(file.schema, [index])
        size, keys, part = _core.estimate_index(file._file.handle.core, spec, 2048, 16)
    # Of few keys that many rows have each, it only knows that they are few.
    assert abs(size / info.size_bytes - 1) < (0.5 if info.num_keys < 10 else 0.25)
    assert abs(keys - info.num_keys) < max(16, 0.05 * info.num_keys)
    assert 0 < part < size
