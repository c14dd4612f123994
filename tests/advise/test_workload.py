"""Workloads: the forms they come in, and the log that a file records."""

from __future__ import annotations

import json
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from processes import CHILDREN

import nimblepy as nb
from nimblepy.advise.workload import Question, read_workload
from nimblepy.file import record

pytestmark = pytest.mark.no_sanitizer  # Python, and other processes

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.struct([("d", pa.int32())]))])


def _tests(question: Question) -> list[tuple[str, str, int]]:
    return [(test.column, test.kind, test.values) for test in question.tests]


def test_filters_and_lookups_are_read_by_shape() -> None:
    found = read_workload(
        [
            "a = 3 AND b LIKE 'x%'",
            pc.field("a").isin([1, 2, 3]),
            {"on": "b"},
            {"on": ["a", "b"], "columns": ["c"], "keys": 10, "times": 5},
            {"on": ["b", "a"], "op": "range", "rows": 1000},
            {"on": "c.d", "op": "prefix"},
            {"filter": "c.d < 7", "columns": ["a"], "times": 3},
            "a <> 3",
        ],
        SCHEMA,
    )
    assert [_tests(q) for q in found] == [
        [("a", "equal", 1), ("b", "starts", 1)],
        [("a", "equal", 3)],
        [("b", "equal", 1)],
        [("a", "equal", 1), ("b", "equal", 1)],
        [("b", "equal", 1), ("a", "range", 1)],
        [("c.d", "starts", 1)],
        [("c.d", "range", 1)],
        [],
    ]
    assert [q.op for q in found] == [
        *("filter", "filter", "lookup", "lookup", "range", "prefix", "filter", "filter")
    ]
    assert (found[3].columns, found[3].keys, found[3].times) == (("c",), 10, 5)
    assert (found[4].rows, found[6].times) == (1000, 3)


def test_equal_questions_are_one() -> None:
    (question,) = read_workload(["a = 3", "a = 3", {"filter": "a = 3", "times": 5}], SCHEMA)
    assert question.times == 7
    assert len(read_workload(["a = 3", "a = 4"], SCHEMA)) == 2


@pytest.mark.parametrize(
    "item",
    [
        *(3, {"on": "z"}, {"on": []}, {}, {"on": "a", "op": "guess"}, {"on": "a", "keys": 0}),
        *({"on": "a", "rows": -1}, {"on": "a", "times": 1.5}, {"why": 1}, "a >", "z = 1"),
        *({"tests": [["a"]]}, {"tests": [["a", "odd", 1]]}, {"on": "a", "columns": ["z"]}),
    ],
    ids=repr,
)
def test_other_items_are_refused(item: Any) -> None:
    with pytest.raises(nb.InvalidArgumentError):
        read_workload([item], SCHEMA)


@pytest.mark.parametrize("workload", [3, b"x", {"on": "a"}])
def test_other_workloads_are_refused(workload: Any) -> None:
    with pytest.raises(nb.InvalidArgumentError, match="workload"):
        read_workload(workload, SCHEMA)


# ------------------------------------------------------------------ recording


@pytest.fixture
def stored(tmp_path: Path) -> str:
    path = str(tmp_path / "t.nimble")
    table = pa.table({"k": range(1000), "s": [f"secret {i}" for i in range(1000)]})
    nb.write(table, path, cluster_by="k", indexes=[nb.HashIndex("s"), nb.SortedIndex("s")])
    return path


def _lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_log_has_shapes_and_counts_and_no_values(stored: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with nb.open(stored, record=log) as file:
        assert file.get("secret 3", ["k"], on="s", default=0) == {"k": 3}
        assert file.get("secret none", ["k"], on="s", default=0) == 0
        assert file.lookup(["secret 1", "secret 2"], on="s", columns=["k"]).num_rows == 2
        file.contains([1, 2, 5000])
        file.count(["secret 5"], on="s")
        file.range(10, 20)
        file.prefix(nb.starts_with("secret 1"), on="s", columns=["k"])
        file.to_table(["k"], "s = 'secret 8' AND k < 100")
        assert file.scan(filter="s IN ('secret 8', 'x', 'y')").count() == 1
        file.to_table(["k"])  # nothing is asked
    text = log.read_text()
    assert "secret" not in text
    lines = _lines(log)
    merged = read_workload(log, nb.open(stored).schema)
    seen = {(q.op, tuple(_tests(q)), q.columns): (q.times, q.rows) for q in merged}
    equal = (("s", "equal", 1),)
    assert seen["lookup", equal, ("k",)] == (3, 1.0)
    assert seen["lookup", equal, ()] == (1, 1.0)
    assert seen["lookup", (("k", "equal", 1),), ()] == (1, 2.0)
    assert seen["range", (("k", "range", 1),), None] == (1, 10.0)
    assert seen["prefix", (("s", "starts", 1),), ("k",)] == (1, 111.0)
    assert seen["filter", (("s", "equal", 1), ("k", "range", 1)), ("k",)] == (1, 1.0)
    assert seen["filter", (("s", "equal", 4),), ()] == (1, 1.0)
    assert len(seen) == 7
    assert {line["of"] for line in lines} == {1000}


def test_without_a_log_files_are_plain(stored: str) -> None:
    file = nb.open(stored)
    assert file.get(1) is not None
    assert file._quick is not None


def test_joins_row_ranges_and_limited_scans_are_in_a_log(stored: str, tmp_path: Path) -> None:
    """Joins went past the log, so that their index was advised to be dropped."""
    log = tmp_path / "log.jsonl"
    probe = pa.table({"s": ["secret 1", "secret 2", None]})
    with nb.open(stored, record=log) as file:
        schema = file.schema
        assert file.index_join(probe, on="s", columns=["k"]).num_rows == 2
        assert nb.index_join(probe, file, on="s", how="semi").num_rows == 2
        assert file.row_ranges(["secret 3"], on="s").num_rows == 1
        assert file.row_ranges(lower=3, upper=9).num_rows == 1
        assert file.take([3, 4], ["k"]).num_rows == 2
        assert file.scan(["k"], filter="k < 50", limit=7).to_table().num_rows == 7
    lines = {(line["op"], str(line["tests"]), str(line["columns"])): line for line in _lines(log)}
    on_s = "[['s', 'equal', 1]]"
    assert lines["lookup", on_s, "['k']"]["rows"] == 2
    assert lines["lookup", on_s, "['k']"]["keys"] == 3
    assert lines["lookup", on_s, "[]"]["times"] >= 1
    assert lines["range", "[['k', 'range', 1]]", "[]"]["rows"] == 6
    assert lines["take", "[]", "['k']"]["rows"] == 2
    assert lines["filter", "[['k', 'range', 1]]", "['k']"]["rows"] == 7
    advice = {(a.kind, a.columns): a.action for a in nb.advise_indexes(stored, str(log))}
    assert advice["hash", ("s",)] == "keep"
    assert "take" not in {question.op for question in read_workload(log, schema)}


def test_a_log_stays_small_and_counts_all(stored: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with nb.open(stored, record=log) as file:
        for i in range(3000):
            file.get(i % 1000)
    lines = _lines(log)
    assert len(lines) <= 14
    assert sum(line["times"] for line in lines) == 3000
    assert sum(line["rows"] for line in lines) == 3000


def test_a_full_log_takes_no_more(
    stored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "MAX_BYTES", 500)
    monkeypatch.setattr(record, "MAX_SHAPES", 50)
    log = tmp_path / "log.jsonl"
    with nb.open(stored, record=log) as file:
        for i in range(100):
            file.scan(["k"], filter=f"k IN ({', '.join(map(str, range(i + 1)))})").to_table()
            file.get(1, on="k", columns=["k", "s"][: i % 3] or None)
    assert 0 < log.stat().st_size <= 500
    assert len(_lines(log)) >= 2


def test_threads_and_processes_share_a_log(stored: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    file = nb.open(stored, record=log)
    threads = [threading.Thread(target=lambda: [file.get(i) for i in range(500)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file.close()
    context = CHILDREN
    workers = [context.Process(target=_ask, args=(stored, str(log))) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sum(line["times"] for line in _lines(log)) == 8 * 500 + 2 * 300


def _ask(stored: str, log: str) -> None:
    with nb.open(stored, record=log) as file:
        for i in range(300):
            file.get(i)


def test_a_recording_file_pickles_and_goes_on(stored: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with nb.open(stored, record=log) as file, pickle.loads(pickle.dumps(file)) as again:
        again.get(1)
    assert len(_lines(log)) == 1


def test_a_log_that_cannot_be_written_warns_and_answers(stored: str, tmp_path: Path) -> None:
    with nb.open(stored, record=tmp_path / "none" / "log.jsonl") as file:
        with pytest.warns(UserWarning, match="no longer recorded"):
            assert file.get(1)["k"] == 1
        assert file.get(2)["k"] == 2


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("a = 3\n")
    with pytest.raises(nb.InvalidArgumentError, match=r"log.jsonl, line 1: not a line"):
        read_workload(os.fspath(log), SCHEMA)
    with pytest.raises(FileNotFoundError):
        read_workload("a = 3", SCHEMA)


def test_advice_is_given_for_open_files_and_for_datasets(stored: str, tmp_path: Path) -> None:
    by_path = nb.advise_indexes(stored, ["k = 3"])
    with nb.open(stored) as file:
        assert nb.advise_indexes(file, ["k = 3"]) == by_path
        assert file.num_rows  # it stays open
        folder = tmp_path / "many"
        folder.mkdir()
        nb.write(file.to_table(), folder / "d.nimble")
        nb.write(file.head(3), folder / "e.nimble")
    with nb.open_dataset(folder) as dataset:
        (of_many,) = nb.advise_indexes(dataset, ["k = 3"])
        assert of_many.times == 1
    assert nb.advise_indexes(folder, ["k = 3"]) == [of_many]
    with pytest.raises(nb.InvalidArgumentError, match="expected a File"):
        nb.advise_indexes(3, ["k = 3"])  # type: ignore[arg-type]
