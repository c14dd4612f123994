"""The benchmark's own arithmetic: what it reports must follow from what it measured."""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bench import bars, charts, datasets, markdown, packed, parts, suite
from bench.answers import feed_array
from bench.indexes import data as index_data
from bench.indexes import sizes as indexes
from bench.peers import peer as peers
from bench.run import Results, summary, workload_of
from bench.tables import upserts
from bench.workloads import BY_NAME
from bench.zoo import measure, registry
from bench.zoo import report as zoo_report

pytestmark = pytest.mark.no_sanitizer  # of the benchmarks

UTC = datetime.UTC


def times(**medians: float) -> dict[str, dict[str, float]]:
    """Peers' medians in nanoseconds, as a run holds them."""
    names = ("median", "p99", "p10", "p90", "min", "count", "cpu")
    return {name: dict.fromkeys(names, value) for name, value in medians.items()}


def run_of(dataset: str = "orders-10", **parts: Any) -> dict[str, Any]:
    config = {
        "date": "2026-11-21T00:00:00",
        "machine": "2 cores",
        "python": "3.11",
        "versions": {"lmdb": "1"},
        "commit": "abc",
        "nimblepy_build": "release",
        "dataset": dataset,
        "rows": 1_000,
        "columns": 9,
        "threads": 1,
        "rounds": 1,
        "state": "warm",
        "settings": {},
        "load_average": [0.5, 1.5],
    }
    return Results(config, **parts).as_dict()


def bar(found: dict[str, Any], text: str) -> bars.Bar:
    return next(b for b in bars.bars(found) if b.text == text)


def test_a_bar_is_a_ratio_to_the_peer_of_the_same_run() -> None:
    found = run_of(workloads={"get_hot": times(nimblepy=2_000, lmdb=4_000)})
    assert bar(found, "`get` hot").value == 2
    ratio = bar(found, "`get` hot, to LMDB")
    assert (ratio.value, ratio.met, ratio.against) == (0.5, True, "lmdb")


def test_scans_are_held_against_the_fastest_peer_that_decodes() -> None:
    peers = times(nimblepy=95, vortex=100, duckdb=120, arrow_mmap=1)
    found = run_of(workloads={"scan@2": peers})
    one = bar(found, "full scan, batches, 2 threads, to the fastest peer")
    assert one.against == "vortex"
    assert not one.met
    assert one.ratio == pytest.approx(0.95 / 0.9)


def test_ranges_are_held_against_columnar_peers_only() -> None:
    peers = times(nimblepy=10, lmdb=1, vortex=100, arrow_mmap=1)
    found = run_of(workloads={"range_1000": peers})
    assert bar(found, "range of 1,000 rows, to the best columnar peer").against == "vortex"


def test_a_bar_from_below_is_met_above_it() -> None:
    found = run_of(threads={"lookup_10k": {"1": 1.0, "2": 1.9, "4": 1.9, "8": 1.0}})
    assert bar(found, "lookups/s, 2 threads to 1").met
    assert not bar(found, "lookups/s, 8 threads to 2").met


def test_a_borrowed_file_is_nobodys_size() -> None:
    built = {
        "nimblepy": {"bytes": 100, "borrowed": False, "seconds": 1},
        "parquet": {"bytes": 120, "borrowed": False, "seconds": 1},
        "polars": {"bytes": 120, "borrowed": True, "seconds": 1},
    }
    assert bars.sizes(run_of(built=built)) == {"nimblepy": 100, "parquet": 120}
    assert bar(run_of(built=built), "size with index, to the smallest peer").against == "parquet"


def test_bars_of_other_tables_are_not_those_of_orders() -> None:
    found = run_of("lineitem-1", workloads={"get_hot": times(nimblepy=2_000, lmdb=4_000)})
    assert bars.bars(found) == []


def test_an_overview_holds_every_workload_and_bar(tmp_path: Path) -> None:
    built = {n: {"bytes": 1, "borrowed": False, "seconds": 1.0} for n in ("nimblepy", "lmdb")}
    peers = times(nimblepy=2_000, lmdb=4_000)
    found = run_of(workloads={"get_hot": peers, "scan@2": peers}, built=built)
    text = markdown.overview(json.loads(json.dumps(found)))
    assert "| `get_hot`, µs | **2** | 4 |" in text
    assert "`scan@2`, ms" in text
    assert "| `get` hot, to LMDB (lmdb) | ≤ 0.7 x | 0.5 x | 0.714 x | yes |" in text
    assert [path.suffix for path in charts.draw(found, tmp_path)] == [".svg"]


def test_the_summary_of_times_is_in_nanoseconds_of_a_key() -> None:
    found = summary([1_000, 2_000, 3_000], [1e-6], keys=10)
    assert (found["median"], found["min"], found["cpu"]) == (200, 100, 100)


def test_a_label_names_workload_and_threads() -> None:
    assert workload_of("scan@2")[0].name == "scan"
    assert workload_of("scan@2")[1] == 2
    assert workload_of("get")[1] == 1


def test_datasets_have_readable_names() -> None:
    assert datasets.known("orders", 10).label == "orders-10"
    assert datasets.known("numbers", rows=100_000_000).label == "numbers-100M"
    assert datasets.known("uuids").arguments == ["--dataset", "uuids", "--rows", "5000000"]
    with pytest.raises(ValueError, match="no dataset 'x'"):
        datasets.known("x")


SCHEMA = pa.schema(
    [
        ("user", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("on", pa.bool_()),
        ("price", pa.decimal128(15, 2)),
        ("day", pa.date32()),
        ("score", pa.float32()),
        ("feature", pa.list_(pa.float32())),
    ]
)


def test_a_packed_row_comes_back() -> None:
    from decimal import Decimal

    rows = [
        {
            "user": "u1",
            "ts": datetime.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
            "on": True,
            "price": Decimal("12.34"),
            "day": datetime.date(1995, 3, 1),
            "score": 0.5,
            "feature": [1.0, 2.0],
        },
        {"user": "", **dict.fromkeys(SCHEMA.names[1:])},
    ]
    table = pa.Table.from_pylist(rows, SCHEMA)
    layout = packed.Layout(SCHEMA)
    found = [layout.row(value) for value in layout.pack(table.to_batches()[0])]
    assert found == rows


@pytest.mark.parametrize(
    ("schema", "key", "ordered"),
    [
        ([("k", pa.int64())], ["k"], [-(2**63), -1, 0, 1, 2**63 - 1]),
        ([("k", pa.string())], ["k"], ["", "a", "ab", "b", "é"]),
        (
            [("a", pa.int64()), ("b", pa.int32())],
            ["a", "b"],
            [(-1, 5), (0, -7), (0, 1), (1, 0)],
        ),
        (
            [("u", pa.string()), ("t", pa.timestamp("us", tz="UTC"))],
            ["u", "t"],
            [
                ("a", datetime.datetime(1969, 1, 1, tzinfo=UTC)),
                ("a", datetime.datetime(2024, 1, 1, tzinfo=UTC)),
                ("ab", datetime.datetime(1960, 1, 1, tzinfo=UTC)),
            ],
        ),
    ],
)
def test_encoded_keys_sort_as_the_keys(schema: Any, key: list[str], ordered: list[Any]) -> None:
    codec = packed.KeyCodec(pa.schema(schema), key)
    one_by_one = [codec.one(value) for value in ordered]
    assert one_by_one == sorted(one_by_one)
    rows = [value if len(key) > 1 else (value,) for value in ordered]
    table = pa.Table.from_pylist(
        [dict(zip(key, row, strict=True)) for row in rows], pa.schema(schema)
    )
    assert codec.all(table) == one_by_one
    if len(key) > 1:
        low, high = codec.prefix(rows[0][0])
        inside = [value[0] == rows[0][0] for value in rows]
        assert [low <= encoded < high for encoded in one_by_one] == inside


def test_a_picker_decodes_the_columns_asked_for() -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int64()), ("c", pa.string())])
    layout = packed.Layout(schema)
    batch = pa.Table.from_pylist([{"a": "x", "b": 7, "c": "yz"}], schema).to_batches()[0]
    value = next(layout.pack(batch))
    for columns, wanted in ((["b"], (7,)), (["c", "b"], ("yz", 7)), (["a", "c"], ("x", "yz"))):
        assert layout.picker(columns)(value) == wanted


@pytest.mark.parametrize("name", suite.SUITES)
def test_the_steps_of_a_suite_ask_for_what_there_is(name: str) -> None:
    written = {label for label, *_ in parts.write_cases(list(peers.NAMES), cores=2)}
    for step in suite.SUITES[name]:
        assert step.known().label
        assert set(step.workloads) <= set(BY_NAME)
        assert set(step.writers) <= written
        assert set(step.without) <= set(peers.NAMES)


@pytest.mark.parametrize("name", peers.NAMES)
def test_a_peer_is_where_it_is_said_to_be(name: str) -> None:
    """Also one whose package is not installed: it says so by having no version."""
    assert issubclass(peers.peer_class(name), peers.Peer)
    assert peers.installed_version(name) or not name.startswith("nimblepy")


def test_stages_of_an_upsert_are_functions_that_there_are() -> None:
    spent: dict[str, float] = {}
    with upserts.stages(spent):
        assert not spent


def test_the_readmes_table_names_what_it_has() -> None:
    workloads = {"get_hot": times(nimblepy=2_000, lmdb=4_000), "scan": times(nimblepy=68.9e6)}
    text = markdown.comparison(run_of(workloads=workloads), {"nimblepy": "ours", "lmdb": "LMDB"})
    assert "| one row by key, hot, as a dict | **2 µs** | 4 µs |" in text
    assert "| full scan to Arrow | **68.9 ms** |  |" in text


def test_index_bars_are_measured_on_little_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIMBLEPY_DATA", str(tmp_path))
    rows = 3_000
    place = index_data.prepare(rows)
    found = indexes.measure(place, rows)
    assert len(found) == len({b.text for b in found}) >= 20
    by_text = {b.text: b for b in found}
    # Counted, not timed: the same on any machine.
    for text in ("int64", "UUID text"):
        assert by_text[f"index reads of a cold lookup, {text}, hash index"].met
        assert by_text[f"rounds of data reads of a cold lookup, {text}, hash index"].met
    assert by_text["reads of a miss with its Bloom filter loaded"].value == 0
    assert all(b.met for b in found if b.text.startswith("Bloom false positives"))
    indexes.write(found, tmp_path / "out")
    result = json.loads((tmp_path / "out" / "indexes.json").read_text())
    assert [b["text"] for b in result["bars"]] == [b.text for b in found]
    assert (tmp_path / "out" / "indexes.md").read_text().count("\n") == len(found) + 2


def test_a_column_of_the_zoo_is_the_same_every_time_and_everything_gives_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIMBLEPY_DATA", str(tmp_path))
    columns = registry.chosen("^(nulls/price_50|logs/url|lists/nullable|maps|structs)")
    assert len(columns) == 6
    plan = measure.Plan(("nimblepy", "parquet"), ("bytes", "take"), 3_000, 1, 1, rebuild=False)
    for column in columns:
        found = measure.measure(column, plan)  # checks answers
        assert set(found["bytes"]) == {"nimblepy", "parquet"}
        assert found["take"]["nimblepy"] >= 0
        again = column.make(registry.seeded(column.name), 3_000)
        assert column.table(3_000)["value"].combine_chunks().equals(pa.array(again))


def test_a_digest_of_answers_is_of_values_only() -> None:
    def digest(array: pa.Array) -> str:
        found = hashlib.blake2b()
        feed_array(found, array)
        return found.hexdigest()

    one = pa.array([[1.5, None], None, [], [-0.0]])
    assert digest(one) == digest(pa.concat_arrays([pa.array([[9.0]]), one]).slice(1))
    assert digest(one) != digest(pa.array([[1.5, None], None, [], [0.0]]))
    assert digest(one) != digest(pa.array([[1.5, None], [], [], [-0.0]]))
    masked = pa.array(np.array([1, 7]), mask=np.array([False, True]))
    assert digest(masked) == digest(pa.array([1, None]))
    assert digest(pa.array(["a", "b"]).dictionary_encode()) == digest(pa.array(["a", "b"]))


def test_ratios_of_the_zoo_are_to_the_best_that_could() -> None:
    found = {"bytes": {"nimblepy": 9.0, "vortex": 12.0, "parquet": 10.0}, "scan": {"nimblepy": 1.0}}
    assert zoo_report.ratio(found, "bytes", "nimblepy") == pytest.approx(0.9)
    assert zoo_report.ratio(found, "scan", "nimblepy") is None
    assert zoo_report.mean([0.5, 2.0]) == pytest.approx(1)
    text = zoo_report.summary({"ints/a": found}, ("nimblepy",))
    assert "bytes of nimblepy to vortex or parquet or parquet_3: geometric mean 0.900" in text
