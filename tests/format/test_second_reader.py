"""The second reader (plain Python, from docs/format) reads what the core writes, and finds
nothing wrong with it: the pages describe the bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import key_cases
import numpy as np
import pyarrow as pa
import pytest
import small_file
import strategies
from exact import assert_same_table
from hypothesis import given
from hypothesis import strategies as st

import nimblepy as nb
from second_reader import read_table, verify_file
from second_reader.__main__ import main

pytestmark = pytest.mark.model

COMPRESSIONS = ["fast", "balanced", "compact"]


def check(table: pa.Table, path: str, **keywords: Any) -> None:
    """Writes the table; both readers give it back, and every rule of the format is kept."""
    nb.write(table, path, **keywords)
    report = verify_file(path)
    assert report.ok, str(report)
    got = read_table(path)
    assert_same_table(got, nb.open(path).to_table())
    if "cluster_by" not in keywords:
        assert_same_table(got, table)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("type_", strategies.ALL_TYPES, ids=str)
def test_second_reader_reads_every_type(path: str, type_: pa.DataType, compression: str) -> None:
    for n, null_rate, stripe_rows in ((150, 0.2, 40), (2_500, 0.0, 100_000), (20, 1.0, 7)):
        table = strategies.table_of(type_, n, seed=n, null_rate=null_rate)
        options = nb.WriteOptions(compression=compression, stripe_rows=stripe_rows, zone_rows=16)
        check(table, path, options=options)


@given(
    table=strategies.tables(),
    compression=st.sampled_from(COMPRESSIONS),
    stripe_rows=st.sampled_from([3, 50, 131_072]),
    group_rows=st.sampled_from([10, 1 << 20]),
)
def test_second_reader_reads_any_table(
    path: str, table: pa.Table, compression: str, stripe_rows: int, group_rows: int
) -> None:
    options = nb.WriteOptions(
        compression=compression, stripe_rows=stripe_rows, group_rows=group_rows, zone_rows=7
    )
    check(table, path, options=options, metadata={"a": "b"})


def patterned(n: int) -> pa.Table:
    """Columns that between them call for every encoding."""
    rng = np.random.default_rng(7)
    rare = rng.random(n) < 0.01
    ints = np.arange(n)
    words = np.array(["alpha", "beta", "gamma", "delta"])
    text = [f"https://example.org/{i * 7919 % n}/{words[i % 4]}" for i in range(n)]
    prices = pa.array([f"{i % 1000}.{i % 100:02}" for i in range(n)]).cast(pa.decimal128(15, 2))
    huge = [int(a) << 64 | int(b) for a, b in rng.integers(0, 2**62, (n, 2))]
    return pa.table(
        {
            "constant": np.full(n, 5),
            "ascending": ints * 3 + rng.integers(0, 3, n),
            "noise": rng.integers(-(2**63), 2**63 - 1, n),
            "small": rng.integers(0, 100, n).astype(np.int16),
            "outliers": np.where(rare, 2**40, rng.integers(0, 100, n)),
            "runs": np.repeat(rng.integers(0, 1000, n // 500 + 1), 500)[:n],
            "sparse": np.where(rare, rng.integers(0, 2**60, n), 0),
            "codes": words[rng.integers(0, 4, n)],
            "far": np.array([3, 2**50, -(2**60)])[rng.integers(0, 3, n)],
            "money": rng.integers(0, 10**6, n) / 100,
            "money32": (rng.integers(0, 10**4, n) / 8).astype(np.float32),
            "doubles": rng.normal(size=n),
            "decimal": prices,
            "wide": pa.array(huge, pa.decimal128(38, 0)),
            "flags": rng.random(n) < 0.5,
            "rare": rare,
            "signed": pa.array([v >> 3 for v in huge], pa.decimal256(60, 5)),
            "text": text,
            "clerk": [f"Clerk#{i * 37 % 1000:09}" for i in range(n)],
            "hex": [f"{int(v):016x}" for v in rng.integers(0, 2**62, n)],
            "bytes": [rng.bytes(int(k)) for k in rng.integers(0, 20, n)],
            "json": [f'{{"id": {i}, "name": "{words[i % 4]}", "at": {i * i}}}' for i in range(n)],
        }
    )


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_second_reader_reads_every_encoding(path: str, compression: str) -> None:
    table = patterned(5_000)
    check(table, path, options=nb.WriteOptions(compression=compression))


def test_second_reader_meets_every_encoding(path: str) -> None:
    met: set[str] = set()
    for compression in COMPRESSIONS:
        nb.write(patterned(20_000), path, options=nb.WriteOptions(compression=compression))
        met |= {c.removeprefix("encoding ") for c in verify_file(path).counts if "encoding" in c}
    assert len(met) >= 15, f"only {sorted(met)}"


def test_second_reader_reads_stripes_of_several_segments(path: str) -> None:
    n = 300_000
    table = pa.table(
        {
            "k": np.arange(n),
            "l": pa.array([[i] * (i % 3) for i in range(n // 10)] + [None] * (n - n // 10)),
            "s": pa.array([None if i % 7 == 0 else f"row {i}" for i in range(n)]),
        }
    )
    options = nb.WriteOptions(stripe_rows=1 << 20, cluster_bloom_bits_per_key=10.0)
    check(table, path, cluster_by="k", options=options)


@pytest.mark.parametrize("key", key_cases.KEY_TYPES, ids=lambda k: k.name)
@pytest.mark.parametrize("descending", [False, True], ids=["asc", "desc"])
def test_second_reader_rebuilds_the_keys_of_every_type(
    path: str, key: key_cases.KeyType, descending: bool
) -> None:
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "k": strategies.make_array(key.type, 400, rng, 0.1),
            "n": pa.array(rng.integers(0, 3, 400)),
        }
    )
    options = nb.WriteOptions(
        stripe_rows=90, group_rows=180, key_chunk_rows=16, cluster_bloom_bits_per_key=8.0
    )
    for nulls_first in (False, True):
        keys = [nb.SortKey("k", descending=descending, nulls_first=nulls_first), nb.SortKey("n")]
        check(table, path, cluster_by=keys, options=options)


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_second_reader_notices_every_flipped_byte(tmp_path: Path, step: int) -> None:
    data = bytearray(small_file.content(tmp_path))
    assert verify_file(bytes(data)).ok
    silent = []
    for at in range(0, len(data), step):
        data[at] ^= 1 << (at % 8)
        try:
            if verify_file(bytes(data)).ok:
                silent.append(at)
        except nb.UnsupportedVersionError:
            pass
        data[at] ^= 1 << (at % 8)
    assert silent == []


def test_verify_command_reports_and_fails_for_damaged_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.nimble"
    path.write_bytes(small_file.content(tmp_path))
    assert main([str(path)]) == 0
    assert "ok" in capsys.readouterr().out
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    assert main([str(path)]) == 1
    assert "checksum does not match" in capsys.readouterr().out
    assert main([str(tmp_path / "absent")]) == 1
    assert main([]) == 2
