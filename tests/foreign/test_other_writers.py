"""Random histories of other writers between the calls of a handle on indexed Parquet files.

The oracle reads every file with pyarrow. A handle never returns a row that does not exist, and
finds every row of a file that is as it was indexed. After refresh() it finds all rows.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nimblepy as nb
from nimblepy.errors import CorruptFileError, InvalidArgumentError, StaleFileError

KEY_TYPES = [pa.int32(), pa.int64(), pa.string(), pa.float64()]
Rows = Counter[tuple[Any, Any]]


@dataclass(frozen=True)
class Layout:
    """The columns of a file."""

    key: pa.DataType = KEY_TYPES[0]
    order: tuple[str, ...] = ("id", "tag")

    def table(self, rows: list[tuple[Any, str]]) -> pa.Table:
        names = {
            "id": pa.array([_as(self.key, key) for key, _ in rows], self.key),
            "tag": pa.array([tag for _, tag in rows], pa.string()),
            "more": pa.array([1] * len(rows), pa.int8()),
        }
        return pa.table({name: names[name] for name in self.order})


def _as(kind: pa.DataType, number: int | None) -> Any:
    if number is None:
        return None
    if pa.types.is_string(kind):
        return f"{number:05}"
    return float(number) if pa.types.is_floating(kind) else number


class World:
    """A directory of Parquet files that other writers change, and the files as last indexed."""

    def __init__(self, rng: random.Random, folder: Path, kind: Any) -> None:
        self.rng = rng
        self.folder = folder
        self.kind = kind
        self.target = folder.parent / "e.nbx"
        self.layout = Layout(rng.choice(KEY_TYPES))
        self.versions: dict[str, int] = {}  # the number of the change that made each file
        self.layouts: dict[str, Layout | None] = {}  # None: truncated
        self.changes = 0
        self.sizes: dict[str, set[int]] = {}
        self.known: dict[str, int] = {}
        self.indexed = self.layout
        self.last: dict[str, list[tuple[Any, str]]] = {}

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"

    def rows(self) -> list[tuple[Any, str]]:
        rng, count = self.rng, self.rng.choice([0, 1, 4, 60])
        keys = [None if rng.random() < 0.05 else rng.randrange(200) for _ in range(count)]
        return [(key, f"{rng.randrange(10**6):06}") for key in keys]

    def write(
        self, name: str, rows: list[tuple[Any, str]], layout: Layout, *, by_rename: bool
    ) -> None:
        rng = self.rng
        path = self.folder / ".new.parquet" if by_rename else self.path(name)
        before = os.stat(path) if path.exists() else None
        pq.write_table(
            layout.table(rows),
            path,
            write_page_index=rng.random() < 0.5,
            row_group_size=rng.choice([7, 100]),
            compression=rng.choice(["none", "zstd"]),
        )
        after = os.stat(path)
        if before and (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
            os.utime(path, ns=(after.st_atime_ns, after.st_mtime_ns + 1))  # the clock is coarse
        if by_rename:
            os.replace(path, self.path(name))
        self.changed(name, layout)
        self.last[name] = rows

    def changed(self, name: str, layout: Layout | None) -> None:
        self.changes += 1
        self.versions[name] = self.changes
        self.layouts[name] = layout
        self.sizes.setdefault(name, set()).add(os.stat(self.path(name)).st_size)

    def remove(self, name: str) -> None:
        del self.versions[name], self.layouts[name], self.last[name]

    # ---------------------------------------------------------------- what other writers do

    def step(self) -> None:
        rng, by_rename = self.rng, self.rng.random() < 0.5
        name = rng.choice(sorted(self.versions))
        path = self.path(name)
        match rng.randrange(11):
            case 0:
                self.write(rng.choice("abcdefgh"), self.rows(), self.layout, by_rename=by_rename)
            case 1:
                self.write(name, self.rows(), self.layout, by_rename=by_rename)
            case 2:  # append to a file, by writing it again
                more = self.last[name] + self.rows()
                self.write(name, more, self.layout, by_rename=by_rename)
            case 3:  # other rows of the same size, and the same time if it is another file
                rows = [(key, f"{rng.randrange(10**6):06}") for key, _ in self.last[name]]
                time = os.stat(path).st_mtime_ns
                self.write(name, rows, self.layout, by_rename=by_rename)
                if by_rename:
                    os.utime(path, ns=(time, time))
            case 4:  # other rows with the old time, in place
                before, sizes = os.stat(path), set(self.sizes.get(name, ()))
                self.write(name, self.rows(), self.layout, by_rename=False)
                # A file that gets an earlier size and time again cannot be told apart.
                if os.stat(path).st_size not in sizes:
                    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
            case 5 if len(self.versions) > 1:
                path.unlink()
                self.remove(name)
            case 6:
                to = rng.choice("abcdefgh")
                if to != name:
                    os.replace(path, self.path(to))
                    rows, layout = self.last[name], self.layouts[name]
                    self.remove(name)
                    self.changed(to, layout)
                    self.last[to] = rows
            case 7:
                os.utime(path)
            case 8:
                size = os.stat(path).st_size
                os.truncate(path, rng.randrange(size))
                self.changed(name, None)
            case 9:  # one file gets other columns
                self.write(name, self.rows(), self.other_layout(), by_rename=by_rename)
            case 10:  # all files get other columns
                self.layout = self.other_layout()
                for each in sorted(self.versions):
                    self.write(each, self.last[each], self.layout, by_rename=by_rename)

    def other_layout(self) -> Layout:
        order = self.rng.choice([("id", "tag"), ("tag", "id"), ("more", "id", "tag")])
        return replace(self.layout, key=self.rng.choice(KEY_TYPES), order=order)

    def mend(self) -> None:
        """Gives all files the same columns."""
        for name in sorted(self.versions):
            if self.layouts[name] != self.layout:
                self.write(name, self.last[name], self.layout, by_rename=True)

    # ---------------------------------------------------------------- the oracle

    def read(self, names: Any) -> Rows:
        rows: Rows = Counter()
        for name in names:
            table = pq.ParquetFile(self.path(name)).read()
            rows.update(zip(table["id"].to_pylist(), table["tag"].to_pylist(), strict=True))
        return rows

    @property
    def is_uniform(self) -> bool:
        return all(layout == self.indexed for layout in self.layouts.values())

    def bounds(self) -> tuple[Rows, Rows] | None:
        """Rows that a handle must return, and rows that it may return; ``None`` if it may raise."""
        if any(self.layouts.get(name) != self.indexed for name in self.known):
            return None
        same = [name for name, version in self.known.items() if self.versions[name] == version]
        return self.read(same), self.read(self.known)

    def index(self) -> Any:
        src = nb.index_files(self.folder, self.target, key="id", kind=self.kind)
        self.note()
        return src

    def note(self) -> None:
        self.known = dict(self.versions)


def pairs(table: pa.Table) -> Rows:
    return Counter(zip(table["id"].to_pylist(), table["tag"].to_pylist(), strict=True))


def ask(world: World, src: Any) -> tuple[Rows, Callable[[Any], bool]]:
    """Returns the rows of a random request, and which keys it asks for."""
    rng, kind = world.rng, world.indexed.key
    keys = [_as(kind, number) for number in rng.sample(range(200), rng.choice([1, 1, 5, 100]))]
    columns = ["id", "tag"]
    match rng.randrange(6 if world.kind == "sorted" else 4):
        case 0:
            row = src.get(keys[0], columns)
            count = int(src.count([keys[0]])[0].as_py())
            assert (row is None) <= (count == 0) or world.known != world.versions
            found = Counter([(row["id"], row["tag"])]) if row and count == 1 else None
            table = src.lookup([keys[0]], columns=columns)
            assert found is None or found <= pairs(table) or world.known != world.versions
            return pairs(table), lambda key: key == keys[0]
        case 1:
            return pairs(src.lookup(keys, columns=columns)), lambda key: key in keys
        case 2:
            rows = pairs(src.lookup(keys, columns=columns))
            counts = src.count(keys).to_pylist()
            if world.known == world.versions:
                distinct = dict(zip(keys, counts, strict=True))
                assert sum(distinct.values()) == sum(
                    n for (key, _), n in world.read(world.known).items() if key in distinct
                )
                assert src.contains(keys).to_pylist() == [n > 0 for n in counts]
            return rows, lambda key: key in keys
        case 3:
            return pairs(src.to_table(columns)), lambda key: True
        case 4:
            low, high = min(keys), max(keys)
            found = src.range(low, high, columns=columns, inclusive="[]")
            ordered = found["id"].to_pylist()
            assert ordered == sorted(ordered)
            return pairs(found), lambda key: key is not None and low <= key <= high
        case _:
            return pairs(src.prefix(keys[0], columns=columns)), lambda key: key == keys[0]


def run(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    lake = folder / f"lake{seed}"
    lake.mkdir()
    world = World(rng, lake, rng.choice(["sorted", "hash"]))
    world.target = folder / f"{seed}.nbx"
    for name in "abc":
        world.write(name, world.rows() or [(1, "x")], world.layout, by_rename=False)
    src = world.index()
    for _ in range(25):
        for _ in range(rng.choice([0, 1, 1, 3])):
            world.step()
        match rng.randrange(6):
            case 0:
                src = nb.open(world.target)
            case 1 | 2:
                try:
                    src.refresh()
                except (InvalidArgumentError, CorruptFileError):
                    assert not world.is_uniform or not world.versions
                    world.mend()
                    if world.layout != world.indexed:
                        world.target.unlink()
                        src, world.indexed = world.index(), world.layout
                    else:
                        src.refresh()
                world.note()
                assert src.stale == []
            case 3 if world.is_uniform:
                src = world.index()
        bounds = world.bounds()
        for _ in range(3):
            try:
                found, is_asked = ask(world, src)
            except (StaleFileError, CorruptFileError):
                assert bounds is None
                continue
            if bounds is None:
                # Only rows of unchanged files are certain; others must be in a file of now.
                continue
            least, most = (
                Counter({row: n for row, n in rows.items() if is_asked(row[0])}) for rows in bounds
            )
            assert least <= found <= most, (seed, least - found, found - most)


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(20, 1000, 20))]
)
def test_random_histories_of_other_writers(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        run(tmp_path, seed)
