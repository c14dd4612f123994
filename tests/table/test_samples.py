"""Samples and estimates, and the blobs of cubes that they ask, which nothing depends on."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb
from nimblepy.table.distributed import commit_files, write_rows, write_target
from nimblepy.table.otree.blocks import BLOBS, CUBES, MOST_BLOBS, Blocks, rebuilt
from nimblepy.table.otree.layouts import WEIGHT
from nimblepy.table.reading.sample import Window
from nimblepy.table.reading.shipped import files_as_text, files_of_text

ROWS = 6_000


def data(rows: int = ROWS, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(rows),
            "price": rng.lognormal(3, 1, rows),
            "rating": rng.beta(5, 2, rows) * 5,
        }
    )


def make(tmp_path: Any, layout: Any = None, **more: Any) -> nb.Table:
    found = nb.connect(tmp_path).create_table("a.b", data().schema, layout=layout, **more)
    found.append(data())
    return found


OTREE = nb.OTree(["price", "rating"], cube_rows=200)


def numbers(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
@pytest.mark.parametrize("layout", [None, OTREE, nb.ZOrder(["price", "rating"])], ids=repr)
def test_share_and_ends(tmp_path: Any, layout: Any, data_format: Any) -> None:
    table = make(tmp_path, layout, data_format=data_format)
    assert table.sample(0).num_rows == 0
    assert table.sample(0).schema.names == table.schema.names
    assert numbers(table.sample(1)) == list(range(ROWS))
    assert numbers(table.sample(1.0, seed=5)) == list(range(ROWS))
    for fraction, seed in ((0.1, None), (0.1, 3), (0.01, 4), (0.9, 5)):
        found = numbers(table.sample(fraction, seed=seed))
        assert len(set(found)) == len(found)
        deviation = math.sqrt(ROWS * fraction * (1 - fraction))
        assert abs(len(found) - ROWS * fraction) < 6 * deviation
    assert numbers(table.sample(0.1, seed=3)) == numbers(table.sample(0.1, seed=3))
    assert numbers(table.sample(0.1, seed=3)) != numbers(table.sample(0.1, seed=4))
    found = table.sample(0.5, columns=["id"], filter="price > 30 and id < 3000", seed=1)
    assert found.schema.names == ["id"]
    passing = set(
        data().filter((pc.field("price") > 30) & (pc.field("id") < 3000))["id"].to_pylist()
    )
    assert set(numbers(found)) < passing
    assert abs(found.num_rows - len(passing) / 2) < 6 * math.sqrt(len(passing) / 4)


def test_a_small_sample_opens_few_files(tmp_path: Any) -> None:
    table = make(tmp_path, OTREE)
    files = table._current.num_files
    assert files > 20
    again = nb.connect(tmp_path).table("a.b")
    again.sample(0.01)
    assert again._current.reading.with_weights().open_files.opened <= 2
    again.reset_io_stats()
    again.sample(0.01, seed=3)
    assert again.io_stats.bytes_read > 0


@pytest.mark.parametrize("wrong", [-0.1, 1.1, "1", None, True, float("nan")])
def test_fractions_that_are_none(tmp_path: Any, wrong: Any) -> None:
    table = make(tmp_path)
    with pytest.raises(nb.InvalidArgumentError, match="from 0 to 1"):
        table.sample(wrong)


@pytest.mark.parametrize("layout", [None, OTREE], ids=repr)
def test_arguments_are_checked_for_any_fraction(tmp_path: Any, layout: Any) -> None:
    table = make(tmp_path, layout)
    for fraction in (0, 0.5):
        for seed in (-1, 1.5, "x", True):
            with pytest.raises(nb.InvalidArgumentError, match="seed: expected an int >= 0"):
                table.sample(fraction, seed=seed)
        with pytest.raises(nb.InvalidArgumentError, match="unknown column 'nope'"):
            table.sample(fraction, filter="nope > 2")


def test_weights_are_hidden(tmp_path: Any) -> None:
    table = make(tmp_path, OTREE, data_format="parquet")
    assert WEIGHT not in table.schema.names
    assert WEIGHT not in table.scan().to_table().column_names
    assert WEIGHT not in [field.name for field in table.iceberg.schema().fields]
    assert table.convert("nimble").files_added > 20
    assert numbers(table.sample(1)) == list(range(ROWS))
    assert 20 < table.sample(0.01).num_rows < 120


def test_with_every_other_change(tmp_path: Any) -> None:
    """Draws never lose or repeat a row, whatever was done to the table."""
    table = make(tmp_path, OTREE, primary_key="id")
    rows = {row["id"]: row["price"] for row in data().to_pylist()}
    snapshot = table.snapshot
    table.delete("price < 10")
    rows = {key: price for key, price in rows.items() if price >= 10}
    more = data(500, 2).set_column(0, "id", pa.array(range(ROWS, ROWS + 500)))
    table.append(more)
    rows |= {row["id"]: row["price"] for row in more.to_pylist()}
    with table.alter() as a:
        a.rename_column("price", "cost")
        a.layout(None)
    more = more.rename_columns(["id", "cost", "rating"])
    table.upsert(more.set_column(1, "cost", pa.array([7.5] * 500)))
    rows |= dict.fromkeys(range(ROWS, ROWS + 500), 7.5)
    table.overwrite(more.slice(0, 0), filter="id < 100")
    rows = {key: price for key, price in rows.items() if key >= 100}

    def found(fraction: float, seed: int | None, filter: str | None = None) -> dict[int, float]:
        sampled = table.sample(fraction, seed=seed, filter=filter)
        made = dict(zip(sampled["id"].to_pylist(), sampled["cost"].to_pylist(), strict=True))
        assert len(made) == sampled.num_rows
        return made

    assert found(1, None) == rows
    for seed in (None, 1, 2):
        part = found(0.3, seed)
        assert part.items() <= rows.items()
        assert abs(len(part) - 0.3 * len(rows)) < 6 * math.sqrt(len(rows) * 0.21)
        assert found(0.3, seed, "cost < 20").items() <= rows.items()
    before = table.at(snapshot=snapshot)
    assert numbers(before.sample(1)) == list(range(ROWS))
    assert numbers(before.sample(0.05, seed=1)) == numbers(before.sample(0.05, seed=1))
    table.rollback(snapshot)
    assert numbers(table.sample(1)) == list(range(ROWS))


@pytest.mark.parametrize("draws", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_no_bias_with_equal_keys(tmp_path: Any, draws: int) -> None:
    """The mean of many draws is that of the table, a third of whose keys are the same."""
    rng = np.random.default_rng(8)
    rows = 3000
    x, y = rng.lognormal(3, 1, rows), rng.random(rows)
    x[: rows // 3], y[: rows // 3] = 20.0, 0.5
    table = nb.connect(tmp_path).create_table(
        "a.b", pa.table({"x": x, "y": y}), layout=nb.OTree(["x", "y"], cube_rows=200)
    )
    share = 0.05
    counts, sums = [], []
    for seed in range(draws):
        found = table.sample(share, seed=seed)["x"].to_numpy()
        counts.append(len(found))
        sums.append(found.sum())
    deviation = math.sqrt(rows * share * (1 - share) / draws)
    assert abs(np.mean(counts) - rows * share) < 4.5 * deviation
    deviation = math.sqrt((x**2).sum() * share * (1 - share) / draws)
    assert abs(np.mean(sums) - x.sum() * share) < 4.5 * deviation


def test_windows_are_circles() -> None:
    for seed in range(200):
        window = Window.of(0.6, seed)
        assert sum(b - a for a, b in window.ranges) == round(0.6 * (1 << 32))
        for a, b in window.ranges:
            ends = np.array([[a, a], [b - 1, b + 5], [a - 9, a]])
            assert window.meets(ends[:, 0], ends[:, 1]).all()
            assert -(1 << 31) <= a < b <= 1 << 31
    assert Window.of(0, 1).ranges == []


# ------------------------------------------------------------------ estimates


@pytest.mark.parametrize(
    ("seeds", "least"), [(10, 4), pytest.param(16, 11, marks=pytest.mark.slow)]
)
def test_intervals_have_the_truth(tmp_path: Any, seeds: int, least: int) -> None:
    table = make(tmp_path, OTREE)
    price = data()["price"].to_numpy()
    truth = {"count(*)": ROWS, "count(price)": ROWS, "sum(price)": price.sum()}
    truth |= {"avg(price)": price.mean(), 'AVG("rating")': data()["rating"].to_numpy().mean()}
    for text, value in truth.items():
        hits = 0
        for seed in range(seeds):
            found = table.estimate(text, 0.05, seed=seed)
            assert found.low <= found.value <= found.high
            hits += found.low <= value <= found.high
        assert hits >= least, text
        exact = table.estimate(text, 1)
        assert exact.low == exact.high == pytest.approx(value)
    found = table.estimate("count(*)", 0.5, filter="price > 30", confidence=0.999)
    assert found.low < (price > 30).sum() < found.high
    assert "99.9" in str(found) or "100" in str(found)
    assert math.isnan(table.estimate("avg(price)", 1, filter="price < 0").value)
    assert table.estimate("sum(price)", 1, filter="price < 0").value == 0


def test_what_is_no_estimate(tmp_path: Any) -> None:
    table = make(tmp_path)
    for text in ("median(price)", "avg", "avg(*)", "", None, 5, "avg(nothing)"):
        with pytest.raises(nb.InvalidArgumentError):
            table.estimate(text, 0.1)  # type: ignore[arg-type]
    with pytest.raises(nb.InvalidArgumentError, match="the fraction must be above 0"):
        table.estimate("count(*)", 0)
    with pytest.raises(nb.InvalidArgumentError, match="confidence"):
        table.estimate("count(*)", 0.1, confidence=1.0)


def test_estimates_of_integers_that_no_double_has(tmp_path: Any) -> None:
    big = [2**60 + 1, 2**63 - 1, -(2**53) - 1]
    table = nb.connect(tmp_path).create_table("a.big", pa.table({"k": pa.array(big)}))
    assert table.estimate("sum(k)", 1).value == pytest.approx(sum(big), rel=1e-15)
    assert table.estimate("avg(k)", 1).value == pytest.approx(sum(big) / 3, rel=1e-15)


# ------------------------------------------------------------------ blobs


def blobs(table: nb.Table) -> list[Path]:
    folder = Path(table.location.removeprefix("file://")) / "metadata"
    return sorted(folder.glob("*.puffin"))


def named(table: nb.Table) -> list[str]:
    head = table.iceberg.metadata.current_snapshot()
    return str(head.summary[BLOBS]).split(",")


@pytest.mark.parametrize("harm", ["gone", "empty", "cut", "flipped", "other"])
def test_a_lost_blob_costs_speed_only(tmp_path: Any, harm: str) -> None:
    table = make(tmp_path, OTREE)
    table.append(data(300, 5))
    sampled, low = numbers(table.sample(0.03, seed=2)), numbers(table.sample(0.03))
    for path in blobs(table):
        octets = path.read_bytes()
        if harm == "gone":
            path.unlink()
        elif harm == "flipped":
            half = len(octets) // 2
            path.write_bytes(octets[:half] + bytes([octets[half] ^ 1]) + octets[half + 1 :])
        else:
            path.write_bytes({"empty": b"", "cut": octets[:-9], "other": b"PFA1" * 9}[harm])
    from nimblepy.table.otree import blocks

    blocks.forget_blobs()
    again = nb.connect(tmp_path).table("a.b")
    assert len(again._metadata.cubes(again._snapshot)) == 0
    assert numbers(again.sample(0.03, seed=2)) == sampled
    assert numbers(again.sample(1)) == numbers(table.to_table())
    assert numbers(again.sample(0.03)) == low
    # Samples are as cheap as before, once the footers are known.
    other = nb.connect(tmp_path).table("a.b")
    other.sample(0.01)
    opened = other._current.reading.with_weights().open_files.opened
    assert opened < other._current.num_files / 3
    again.append(data(100, 6))
    assert again.num_rows == ROWS + 400
    assert not set(live(again)) <= set(again._metadata.cubes(again._snapshot).files)
    assert numbers(again.sample(1)) == numbers(again.to_table())
    # And there are blobs again.
    again.optimize_layout(budget_bytes=1)
    assert set(live(again)) <= set(again._metadata.cubes(again._snapshot).files)
    assert again.num_rows == ROWS + 400
    assert again.optimize_layout(budget_bytes=1).snapshot == again.snapshot


def live(table: nb.Table) -> list[str]:
    return [member.file.path for member in table._current.members]


def test_any_byte_may_be_another() -> None:
    from nimblepy.table.base.model import Cube, FileCubes

    files = [(f"f{i}", FileCubes("space", (Cube(4, i, -5, 5, 10),))) for i in range(5)]
    octets = Blocks.of_files(files).to_bytes()
    assert Blocks.from_bytes(octets).of("f3") == files[3][1]
    for at in range(len(octets)):
        for change in (1, 128):
            wrong = octets[:at] + bytes([octets[at] ^ change]) + octets[at + 1 :]
            with contextlib.suppress(ValueError):
                assert Blocks.from_bytes(wrong).of("f3") == files[3][1]
    for end in range(len(octets)):
        with pytest.raises(ValueError, match="cube blob cannot be read"):
            Blocks.from_bytes(octets[:end])


def test_blobs_are_merged_and_removed(tmp_path: Any) -> None:
    table = make(tmp_path, OTREE)
    for i in range(MOST_BLOBS + 5):
        table.append(data(50, i))
    assert len(named(table)) < MOST_BLOBS
    cubes = table._metadata.cubes(table._snapshot)
    assert set(cubes.files) == {member.file.path for member in table._current.members}
    assert int(np.sum(cubes.column("rows"))) == table.num_rows
    kinds = table.census().filter(pc.field("kind") == "cubes")
    assert kinds.num_rows == len(blobs(table))
    assert all(kinds["reachable"].to_pylist())
    table.expire(keep=1)
    assert sorted(path.name for path in blobs(table)) == sorted(named(table))
    assert table.remove_orphans(older_than=dt.timedelta(0)).files == ()
    cubes = table._metadata.cubes(table._snapshot)
    assert int(np.sum(cubes.column("rows"))) == table.num_rows
    table.delete("id >= 0")
    assert table.sample(1).num_rows == 0


def test_merging_is_commutative() -> None:
    from nimblepy.table.base.model import Cube, FileCubes

    parts = [
        Blocks.of_files(
            (f"f{part}-{i}", FileCubes(f"s{part % 2}", (Cube(4, i, -part, part, 10),)))
            for i in range(part + 1)
        )
        for part in range(4)
    ]
    there, back = Blocks.merged(parts), Blocks.merged(parts[::-1])
    assert len(there) == 10
    for path in there.files:
        assert there.of(path) == back.of(path)
    assert len(Blocks.merged([there, back]).files) == 10
    assert Blocks.merged(parts, {"f3-1"}).files == ["f3-1"]


def test_writers_at_the_same_time(tmp_path: Any) -> None:
    table = make(tmp_path, OTREE)
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            mine = nb.connect(tmp_path).table("a.b")
            for i in range(3):
                mine.append(data(40, 10 * number + i))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    table.refresh()
    cubes = table._metadata.cubes(table._snapshot)
    assert set(cubes.files) == {member.file.path for member in table._current.members}
    assert table.num_rows == ROWS + 9 * 40


def test_described_files_keep_their_cubes(tmp_path: Any) -> None:
    """Spark's tasks write files and describe them to the process that commits."""
    table = make(tmp_path, OTREE)
    files = write_rows(data(300, 9), write_target(table))
    again = files_of_text(files_as_text(files))
    assert [file.cubes for file in again] == [file.cubes for file in files]
    commit_files(table, again)
    assert set(live(table)) <= set(table._metadata.cubes(table._snapshot).files)
    assert table.sample(1).num_rows == ROWS + 300


def test_windows_that_hold_whole_files() -> None:
    for seed in (None, *range(50)):
        window = Window.of(0.3, seed)
        least = np.random.default_rng(9).integers(-(1 << 31), 1 << 31, 200)
        most = np.minimum(least + (1 << 29), (1 << 31) - 1)
        inside = [
            any(a <= x and y < b for a, b in window.ranges)
            for x, y in zip(least, most, strict=True)
        ]
        assert window.holds(least, most).tolist() == inside
        assert (window.meets(least, most) | ~window.holds(least, most)).all()


@pytest.mark.parametrize(
    "footer",
    [b"[" * 100_000, b'{"blobs":[{"offset":Infinity,"length":1,"type":"nimblepy-otree-v1"}]}'],
)
def test_footers_that_are_none_cost_speed_only(footer: bytes) -> None:
    octets = b"PFA1PFA1" + footer + struct.pack("<i4s4s", len(footer), bytes(4), b"PFA1")
    with pytest.raises(ValueError, match="cube blob cannot be read"):
        Blocks.from_bytes(octets)
    for text in ("[" * 100_000, '{"space":"s","cubes":[[1e999,0,0,0,1]]}',
                 '{"space":"s","cubes":[[999,0,0,0,1]]}'):  # fmt: skip
        found = rebuilt(Blocks.of_files([]), pa.array([text]), lambda i, text=text: {CUBES: text})
        assert len(found) == 0


def test_footers_repeat_the_cubes(tmp_path: Any) -> None:
    from nimblepy.table.base.model import FileCubes

    for data_format in ("nimble", "parquet"):
        table = make(tmp_path / data_format, OTREE, data_format=data_format)
        cubes = table._metadata.cubes(table._snapshot)
        for i in range(3):
            footer = table._current.child(i).metadata["nimblepy.otree"]
            path = table._current.members[i].file.path
            assert FileCubes.from_json(footer) == cubes.of(path)
