"""Random lookups in indexed Parquet files, against a dict and against DuckDB."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nimblepy as nb

# Types of keys: special values, and makers of others, of which some are equal.
_KEYS: dict[pa.DataType, tuple[list[Any], Callable[[random.Random], Any]]] = {
    pa.int64(): (
        [-(2**63), 2**63 - 1, 0, -1],
        lambda rng: rng.choice([rng.randrange(5000), rng.getrandbits(40)]),
    ),
    pa.int16(): ([-(2**15), 2**15 - 1], lambda rng: rng.randrange(-9000, 9000)),
    pa.float64(): (
        [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324],
        lambda rng: rng.randrange(3000) / 4,
    ),
    pa.string(): (["", "\0", "ä", "x" * 99], lambda rng: f"user{rng.randrange(9000)}"),
    pa.binary(): ([b"", b"\0", b"\xff"], lambda rng: rng.randbytes(2)),
}


def _value(rng: random.Random, kind: pa.DataType) -> Any:
    special, other = _KEYS[kind]
    choice = rng.random()
    if choice < 0.01:
        return None
    return rng.choice(special) if choice < 0.03 else other(rng)


def _write(rng: random.Random, path: Path, table: pa.Table) -> None:
    pq.write_table(
        table,
        path,
        compression=rng.choice(["none", "snappy", "gzip", "zstd", "lz4"]),
        data_page_size=rng.choice([200, 4000, 1 << 20]),
        data_page_version=rng.choice(["1.0", "2.0"]),
        write_page_index=rng.random() < 0.5,
        row_group_size=rng.choice([50, 1000, 1 << 20]),
        use_dictionary=rng.random() < 0.5,
        write_page_checksum=rng.random() < 0.5,
    )


def _normal(value: Any) -> Any:
    """Equal for equal keys: NaN equals NaN, and -0.0 equals 0.0."""
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    return value


def _check(seed: int, kind: Any, folder: Path, num_lookups: int) -> None:
    rng = random.Random(seed)
    types = rng.choice([[kind] for kind in _KEYS] + [[pa.int16(), pa.string()]])
    names = [f"k{i}" for i in range(len(types))]

    def key() -> tuple[Any, ...]:
        return tuple(_value(rng, kind) for kind in types)

    rows_of: dict[tuple[Any, ...], list[int]] = {}
    lake = folder / "lake"
    lake.mkdir()
    first, stored = 0, []
    for number in range(rng.randrange(2, 7)):
        keys = [key() for _ in range(rng.choice([0, 1, 300, 4000]))]
        for i, values in enumerate(keys):
            if None not in values:
                rows_of.setdefault(tuple(map(_normal, values)), []).append(first + i)
        arrays = [
            pa.array(column, kind)
            for column, kind in zip(_columns(keys, types), types, strict=True)
        ]
        numbers = pa.array(range(first, first + len(keys)), pa.int64())
        table = pa.table([*arrays, numbers], names=[*names, "n"])
        _write(rng, lake / f"f{number}.parquet", table)
        first += len(keys)
        stored += keys
    src = nb.index_files(lake, folder / "e.nbx", key=names, kind=kind)
    assert src.num_rows == first
    done = 0
    while done < num_lookups:
        count = rng.choice([1, 10, 1000, 20_000])
        asked = [
            rng.choice(stored) if stored and rng.random() < 0.7 else key() for _ in range(count)
        ]
        probes = pa.table(
            [pa.array(c, t) for c, t in zip(_columns(asked, types), types, strict=True)],
            names=names,
        )
        expected = [row for values in asked for row in rows_of.get(tuple(map(_normal, values)), [])]
        assert src.lookup(probes, columns=["n"]).column("n").to_pylist() == expected
        for values in asked[:20]:
            found = src.get(values if len(types) > 1 else values[0], ["n"])
            rows = rows_of.get(tuple(map(_normal, values)), [])
            assert found == ({"n": rows[0]} if rows else None)
        done += count
    _check_duckdb(src, lake, probes, names)


def _columns(keys: list[tuple[Any, ...]], types: list[pa.DataType]) -> list[list[Any]]:
    return [[values[i] for values in keys] for i in range(len(types))]


def _check_duckdb(src: nb.ParquetIndex, lake: Path, probes: pa.Table, names: list[str]) -> None:
    duckdb = pytest.importorskip("duckdb")
    numbered = probes.append_column("i", pa.array(range(len(probes)), pa.int64()))
    same = " and ".join(f"p.{name} = f.{name}" for name in names)
    with duckdb.connect() as connection:
        connection.register("p", numbered)
        found = connection.execute(
            f"select n from p join read_parquet('{lake}/*.parquet') f on {same} order by i, n"
        ).fetchall()
    expected = src.lookup(probes, columns=["n"]).column("n").to_pylist()
    assert [row for (row,) in found] == expected


@pytest.mark.parametrize("kind", ["sorted", "hash"])
@pytest.mark.parametrize("seed", range(6))
def test_random_lookups(seed: int, kind: Any, tmp_path: Path) -> None:
    _check(seed, kind, tmp_path, 2000)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sorted", "hash"])
@pytest.mark.parametrize("seed", range(100, 150))
def test_ten_million_random_lookups(seed: int, kind: Any, tmp_path: Path) -> None:
    """100,000 in each of 100 indexes."""
    _check(seed, kind, tmp_path, 100_000)
