"""Optimizing an OTree: the same rows, fewer of them read, within a budget; and its picture."""

from __future__ import annotations

import itertools
import secrets
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import nimblepy as nb
from nimblepy.cli.main import app
from nimblepy.expr.filter import parse_filter
from nimblepy.table.base.model import FileCubes
from nimblepy.table.handle import TableState
from nimblepy.table.upkeep.recluster import Extents, choose


@pytest.fixture(autouse=True)
def _same_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows get random weights, and what optimizing gains depends on them."""
    seeds = itertools.count(1)
    monkeypatch.setattr(secrets, "randbits", lambda bits: next(seeds))


def part(number: int, rows: int = 600) -> pa.Table:
    rng = np.random.default_rng(number)
    return pa.table(
        {
            "id": np.arange(rows) + number * rows,
            "price": rng.lognormal(3 + 0.1 * number, 1, rows),
            "name": pa.array([f"n{i:03}" for i in rng.integers(0, 400, rows)]),
        }
    )


def appended(tmp_path: Any, **more: Any) -> nb.Table:
    table = nb.connect(tmp_path).create_table(
        "a.b", part(0).schema, layout=nb.OTree(["price", "name"], cube_rows=100), **more
    )
    for number in range(6):
        table.append(part(number))
    return table


def read(table: nb.Table) -> int:
    """Rows of the files that some boxes leave."""
    found = 0
    for price, name in ((5, 30), (10, 200), (20, 120), (30, 350), (60, 10)):
        names = f"name between 'n{name:03}' and 'n{name + 40:03}'"
        box = f"price between {price} and {1.2 * price} and {names}"
        conjuncts = parse_filter(box, table.schema).conjuncts
        found += int(table._current.plan.members(conjuncts).files.rows.sum())
    return found


@pytest.mark.parametrize(
    "more", [{}, {"data_format": "parquet", "primary_key": "id"}], ids=["plain", "keyed"]
)
def test_rows_stay_and_files_become_fewer(tmp_path: Any, more: Any) -> None:
    table = appended(tmp_path, **more)
    table.delete("id between 100 and 300")
    wanted = sorted(set(range(3600)) - set(range(100, 301)))
    files, size, before = table._current.num_files, table.size_bytes, read(table)
    done = table.optimize_layout(budget_bytes=size // 3)
    assert 0 < done.files_removed < files
    assert done.rows_inserted == done.rows_deleted == 0
    assert sorted(table.to_table(["id"])["id"].to_pylist()) == wanted
    some = read(table)
    assert some < 0.9 * before
    table.optimize_layout()
    assert read(table) < 0.8 * before
    assert table._current.num_files < files
    assert sorted(table.sample(1)["id"].to_pylist()) == wanted
    assert sorted(table.to_table(["id"])["id"].to_pylist()) == wanted
    # Small groups go first, and what they became may gain once more beside its neighbours.
    assert any(table.optimize_layout().files_removed == 0 for _ in range(10)), "comes to an end"
    if more:
        assert table.get(99)["id"] == 99
        assert table.get(100) is None


def test_a_delete_meanwhile_is_kept(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = appended(tmp_path)
    other = nb.connect(tmp_path).table("a.b")
    plain = TableState.rows
    seen: list[Any] = []

    def rows(self: TableState, metadata: Any) -> Any:
        if not seen:
            seen.append(None)
            other.delete("id < 50")
        return plain(self, metadata)

    monkeypatch.setattr(TableState, "rows", rows)
    table.optimize_layout()
    table.refresh()
    assert table.num_rows == 3550
    assert table.count_rows("id < 50") == 0


def test_other_tables_are_compacted(tmp_path: Any) -> None:
    table = nb.connect(tmp_path).create_table("a.b", part(0).schema)
    assert table.optimize_layout().files_removed == 0
    for wrong in (0, -5, 1.5):
        with pytest.raises(nb.InvalidArgumentError, match="budget_bytes: expected an int >= 1"):
            table.optimize_layout(budget_bytes=wrong)  # type: ignore[arg-type]
    for number in range(4):
        table.append(part(number))
    table.optimize_layout()
    assert table._current.num_files == 1


def inner(table: nb.Table) -> list[int]:
    """Rows of the files of inner cubes, which have low weights alone."""
    found = []
    for child in table._current.children():
        (cube,) = FileCubes.from_json(child.metadata["nimblepy.otree"]).cubes
        if cube.most < 0:
            found.append(cube.rows)
    return found


def test_compacting_leaves_cubes(tmp_path: Any) -> None:
    """They are small beside other files, and where they belong."""
    data = pa.concat_tables([part(number) for number in range(6)])
    table = nb.connect(tmp_path).create_table(
        "a.b", data, layout=nb.OTree(["price", "name"], cube_rows=100)
    )
    files = table._current.num_files
    assert files > 20
    assert table.compact().files_removed == 0
    assert not table.health().advice
    done = table.compact(where_needed=False)
    assert (done.files_removed, done.rows_inserted, done.rows_deleted) == (files, 0, 0)
    assert abs(table._current.num_files - files) < files / 4
    assert inner(table) == [100]
    again = nb.connect(tmp_path).table("a.b")
    again.sample(0.01)
    assert again._current.reading.with_weights().open_files.opened <= 2


def test_compacting_puts_rows_into_cubes_of_all(tmp_path: Any) -> None:
    table = appended(tmp_path)
    drawn = sorted(table.sample(0.2, seed=3)["id"].to_pylist())
    before, files = read(table), table._current.num_files
    few = table.compact(filter="price < 10", where_needed=False)
    assert 0 < few.files_removed < files
    assert table.compact().files_removed
    assert read(table) < 0.8 * before
    assert table._current.num_files < files
    table.delete("id % 5 = 0")
    assert table.compact().files_removed, "deleted rows go"
    live = [member.file.path for member in table._current.members]
    assert set(live) <= set(table._metadata.cubes(table._snapshot).files)
    assert sorted(table.sample(0.2, seed=3)["id"].to_pylist()) == [i for i in drawn if i % 5]
    assert sum(member.file.rows for member in table._current.members) < 1.15 * table.num_rows


@pytest.mark.parametrize("parts", [1, 3])
def test_files_of_before_the_layout_are_laid_out(tmp_path: Any, parts: int) -> None:
    table = nb.connect(tmp_path).create_table("a.b", part(0).schema)
    for number in range(parts):
        table.append(pa.concat_tables(part(10 * number + i) for i in range(6 // parts)))
    before = read(table)
    with table.alter() as a:
        a.layout(nb.OTree(["price", "name"], cube_rows=100))
    assert "optimize_layout" in [item.action for item in table.health().advice]
    assert table.compact().files_removed == parts
    assert read(table) < before / 2
    assert all(child.metadata.get("nimblepy.otree") for child in table._current.children())
    assert table.num_rows == table.sample(1).num_rows == 3600


def extents(boxes: list[list[float]], commits: list[int], staying: int = 0) -> Extents:
    """Files of 1,000 rows and 10 bytes; a box is (least x, least y, greatest x, greatest y)."""
    ends = np.array(boxes, float)
    count = len(ends)
    rows, sizes = np.full(count, 1000), np.full(count, 10)
    left, least = np.full(count, staying), np.full(count, 0.04)
    return Extents(ends[:, :2], ends[:, 2:], rows, sizes, np.array(commits), left, least)


def test_what_overlaps_most_comes_first() -> None:
    """Files over everything gain more than such that lie beside each other."""
    boxes: list[list[float]] = [[0, 0, 1, 1]] * 4
    boxes += [[0.5, 0, 0.75, 0.25], [0.5, 0.25, 0.75, 0.5]]
    files = extents(boxes, list(range(6)))
    assert [group.tolist() for group in choose(files, 250, 40)] == [[0, 1, 2, 3]]
    assert choose(files, 250, 9) == []
    assert choose(extents(boxes, [0] * 6), 250, 1000) == [], "they were laid out together"
    assert choose(extents(boxes, list(range(6)), staying=1000), 250, 40) == [], "inner cubes"


def test_samples_stay_what_they_are(tmp_path: Any) -> None:
    """Rows keep their weights: which files are written anew depends on these."""
    table = nb.connect(tmp_path).create_table(
        "a.b", part(0).schema, layout=nb.OTree(["price", "name"], cube_rows=60)
    )
    for number in range(4):
        table.append(part(number))

    def sampled() -> list[list[int]]:
        draws = [(0.02, None), (0.1, None), (0.02, 3)]
        return [sorted(table.sample(f, seed=s)["id"].to_pylist()) for f, s in draws]

    before = sampled()
    assert 20 < len(before[0]) < 80
    for budget in (table.size_bytes // 5, table.size_bytes // 3, None):
        done = table.optimize_layout(budget_bytes=budget)
        assert sampled() == before
    assert done.files_removed
    table.compact(target_bytes=table.size_bytes // 10)
    assert sampled() == before
    with table.alter() as a:
        a.layout(None)
    table.append(part(90, 50))
    assert table.compact().files_removed
    with table.alter() as a:
        a.layout(nb.OTree(["name"], cube_rows=60))
    assert [sorted(i for i in ids if i < 3000) for ids in sampled()] == before
    table.compact(where_needed=False)
    assert [sorted(i for i in ids if i < 3000) for ids in sampled()] == before


@pytest.mark.parametrize("name", ["layout.svg", "layout.html"])
def test_a_picture(tmp_path: Any, name: str) -> None:
    table = appended(tmp_path)
    path = tmp_path / name
    done = CliRunner().invoke(app, ["table", "layout", f"{tmp_path}#a.b", "--plot", str(path)])
    assert done.exit_code == 0, done.output
    text = path.read_text()
    svg = ET.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    titles = [node for node in svg.iter() if node.tag.endswith("title")]
    assert len(titles) == 2 * table._current.num_files
    assert "this table" in text
    assert "OTree" in CliRunner().invoke(app, ["table", "layout", f"{tmp_path}#a.b"]).output


def test_a_picture_of_nothing(tmp_path: Any) -> None:
    lake = nb.connect(tmp_path)
    table = lake.create_table("a.b", part(0).schema)
    with pytest.raises(nb.InvalidArgumentError, match="has no layout"):
        table.draw_layout()
    with pytest.raises(nb.InvalidArgumentError, match="no rows"):
        table.draw_layout(["price"])
    table.append(part(0))
    assert "blobs are lost" in table.draw_layout(["price"])


def test_a_picture_of_fields_of_structs(tmp_path: Any) -> None:
    place = pa.StructArray.from_arrays(
        [pa.array(range(100)), pa.array(range(100, 0, -1))], ["x", "y"]
    )
    table = nb.connect(tmp_path).create_table("a.b", pa.schema({"place": place.type}))
    table.append(pa.table({"place": place}))
    assert "box over place.x, place.y" in table.draw_layout(["place.x", ("place", "y")])
    with pytest.raises(nb.InvalidArgumentError, match=r"place\.z"):
        table.draw_layout(["place.z"])


def test_one_call_does_all_and_health_says_it(tmp_path: Any) -> None:
    table = appended(tmp_path)
    before = table.health()
    assert before.boxes_read is not None
    assert before.boxes_ideal is not None
    assert before.boxes_read > 1.2 * before.boxes_ideal
    assert "optimize_layout" in [item.action for item in before.advice]
    assert "compact" not in [item.action for item in before.advice]
    assert "a box of 1 % reads" in repr(before)
    done = table.optimize(budget_bytes=table.size_bytes // 3)
    assert done["optimize_layout"].files_removed
    for _ in range(10):
        if "optimize_layout" not in table.optimize():
            break
    after = table.health()
    assert after.boxes_read is not None
    assert after.boxes_read < 0.8 * before.boxes_read
    assert "optimize_layout" not in [item.action for item in after.advice], "comes to an end"
    table.delete("id < 500")
    assert "deleted rows" in str(table.health().advice)
    table.optimize()
    assert table.health().rows < 1.1 * 3100
    assert sorted(table.to_table(["id"])["id"].to_pylist()) == list(range(500, 3600))
    lake = nb.connect(tmp_path)
    assert lake.create_table("a.plain", part(0)).health().boxes_read is None
    assert lake.create_table("a.empty", part(0).schema, layout=nb.OTree("id")).health().files == 0
