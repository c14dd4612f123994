"""Tables of format version 3 with deletion vectors, which other engines write."""

from __future__ import annotations

import contextlib
import pickle
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import java_iceberg
import numpy as np
import pyarrow as pa
import pytest
from deletion_vectors import framed, vector_bytes, version_3

import nimblepy as nb
from nimblepy.errors import CorruptFileError, NimbleError
from nimblepy.table.base.deletion_vector import deleted_positions, deletion_vector
from nimblepy.table.reading.plan import clear_caches

# Bytes of Java's library.
JAVA = {
    "00000023d1d339640100000000000000000000003b3000000100000a0002000a00090063000000a85c3f1d": [
        *range(10, 20),
        99,
    ],
    "00000022d1d339640100000000000000000000003a3000000100000000000000100000000000f7a6b4b5": [0],
}


def test_bytes_of_java() -> None:
    for text, rows in JAVA.items():
        assert deleted_positions(bytes.fromhex(text), len(rows)).tolist() == rows
        assert deletion_vector(np.array(rows, dtype=np.uint64)).hex() == text


def sets() -> list[list[int]]:
    rng = random.Random(0)
    ends = [0, 4095, 4096, 65535, 65536, 2**31, 2**32 - 1, 2**32, 2**40, 2**63 - 1]
    return [
        [],
        ends,
        list(range(4096)),
        list(range(4097)),
        list(range(200_000)),
        *([rng.randrange(2**20) for _ in range(n)] for n in (1, 10, 70_000)),
        *([rng.randrange(2**36) for _ in range(n)] for n in (5, 300)),
    ]


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("number", range(len(sets())))
def test_positions_are_read_back(number: int, runs: bool) -> None:
    rows = sorted(set(sets()[number]))
    blob = vector_bytes(rows, runs=runs)
    found = deleted_positions(blob, len(rows))
    assert found.dtype == np.uint64
    assert found.tolist() == rows
    if not rows or rows[-1] < 2**40:  # Java writes a bitmap for each multiple of 2**32
        again = deletion_vector(np.array(rows, dtype=np.uint64))
        assert deleted_positions(again, len(rows)).tolist() == rows
    for count in (len(rows) + 1, max(0, len(rows) - 1)):
        if count != len(rows):
            with pytest.raises(ValueError, match="position"):
                deleted_positions(blob, count)


def test_every_truncation_and_flipped_bit_is_an_error() -> None:
    blob = vector_bytes([1, 2, 3, 70_000, 2**33])
    for size in range(len(blob)):
        with pytest.raises(ValueError, match=r"bytes|length"):
            deleted_positions(blob[:size], 5)
    for bit in range(8 * len(blob)):
        bad = bytearray(blob)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match=r"length|begins|checksum"):
            deleted_positions(bytes(bad), 5)


def test_hostile_bitmaps_take_little_memory() -> None:
    """With a checksum that fits, every change gives an error or positions, and no allocation."""
    rng = random.Random(1)
    plain = vector_bytes([1, 2, 3, 70_000, 2**33])[8:-4]
    runs = vector_bytes(range(5), runs=True)[8:-4]
    full = struct.pack("<I", 12347 | 65535 << 16) + b"\xff" * 8192
    header = b"".join(struct.pack("<HH", key, 65535) for key in range(65536))
    body = struct.pack("<HHH", 1, 0, 65535) * 65536
    many = struct.pack("<QI", 1, 0) + full + header + bytes(4 * 65536) + body
    hostile = [many, struct.pack("<Q", 2**64 - 1), struct.pack("<QIII", 1, 0, 12346, 2**32 - 1)]
    for octets in (plain, runs):
        for _ in range(1500):
            bad = bytearray(octets)
            for _ in range(rng.randrange(1, 4)):
                bad[rng.randrange(len(bad))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
            hostile.append(bytes(bad))
    tracemalloc.start()
    for bitmap in hostile:
        with contextlib.suppress(ValueError):
            rows = deleted_positions(framed(bitmap), 5)
            assert len(rows) == 5
            assert (np.diff(rows.astype(np.int64)) > 0).all()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


def table_of(lake: nb.Catalog, **options: Any) -> nb.Table:
    table = lake.create_table("n.two", pa.table({"k": range(1000)}), cluster_by="k", **options)
    table.append(pa.table({"k": range(1000, 1010)}))
    return table


@pytest.mark.parametrize("data_format", ["nimble", "parquet"])
def test_vectors_are_applied(lake: nb.Catalog, tmp_path: Path, data_format: str) -> None:
    old = table_of(lake, data_format=data_format)
    first, second = (member.file.path for member in old._current.members)
    deleted = {first: [0, 5, *range(100, 900)], second: [9]}
    table = lake.register("n.three", version_3(old, deleted, tmp_path))
    keys = [k for k in range(1010) if k not in (0, 5, 1009) and not 100 <= k < 900]
    assert table.to_table()["k"].to_pylist() == keys
    shipped = pickle.loads(pickle.dumps(table._current))
    assert shipped.read(shipped.all_rows(), None)["k"].to_pylist() == keys
    assert table.num_rows == table.count_rows() == len(keys)
    assert table.count([0, 1, 1009], on="k").to_pylist() == [0, 1, 0]
    assert table.range(95, 1005, on="k")["k"].to_pylist() == [k for k in keys if 95 <= k < 1005]
    assert table.to_table(filter="k < 10")["k"].to_pylist() == [1, 2, 3, 4, 6, 7, 8, 9]
    before = old.snapshot
    assert table.at(snapshot=before).num_rows == 1010
    changes = pa.Table.from_batches(table.changes(before))
    assert set(changes["_change"].to_pylist()) == {"delete"}
    assert sorted(changes["k"].to_pylist()) == sorted(set(range(1010)) - set(keys))
    assert table.files()["deleted"].to_pylist() == [802, 1]


DAMAGE: dict[str, tuple[dict[str, Any], str]] = {
    "beyond the file": ({"content_offset": 10_000}, "10000"),
    "a negative offset": ({"content_offset": -1}, "-1"),
    "a huge size": ({"content_size_in_bytes": 2**62}, str(2**62)),
    "another place": ({"content_offset": 5}, "offset 5"),
    "no place": ({"content_offset": None}, "lacks the data file, offset or size"),
    "another number of rows": ({"record_count": 3}, "expected 3"),
    "more rows than the file has": ({"record_count": 2**40}, "only 1000 rows"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage(lake: nb.Catalog, tmp_path: Path, what: str) -> None:
    changes, message = DAMAGE[what]
    old = table_of(lake)
    first = old._current.members[0].file.path
    table = lake.register("n.three", version_3(old, {first: [1, 2]}, tmp_path, **changes))
    with pytest.raises(CorruptFileError, match=message):
        table.to_table()
    with pytest.raises(CorruptFileError, match=message):
        pa.Table.from_batches(table.changes(old.snapshot))


def test_positions_behind_the_file_are_damage(lake: nb.Catalog, tmp_path: Path) -> None:
    old = table_of(lake)
    first = old._current.members[0].file.path
    table = lake.register("n.three", version_3(old, {first: [1, 1000]}, tmp_path))
    with pytest.raises(CorruptFileError, match="row 1000"):
        table.to_table()


def test_damaged_files_are_errors(lake: nb.Catalog, tmp_path: Path) -> None:
    old = table_of(lake)
    first = old._current.members[0].file.path
    metadata = version_3(old, {first: [1, 2]}, tmp_path)
    table = lake.register("n.three", metadata)
    (puffin,) = tmp_path.glob("*.puffin")
    octets = puffin.read_bytes()
    rng = random.Random(0)
    for _ in range(40):
        at = 4 + rng.randrange(len(vector_bytes([1, 2])))
        puffin.write_bytes(
            octets[:at] + bytes([octets[at] ^ 1 << rng.randrange(8)]) + octets[at + 1 :]
        )
        clear_caches()
        with pytest.raises(CorruptFileError, match="puffin"):
            lake.table("n.three").to_table()
    puffin.unlink()
    clear_caches()
    with pytest.raises((NimbleError, OSError)):
        lake.table("n.three").to_table()
    assert table.name == "n.three"


@pytest.mark.skipif(java_iceberg.missing() is not None, reason=str(java_iceberg.missing()))
def test_as_java_reads_its_own_vectors(lake: nb.Catalog, tmp_path: Path) -> None:
    rng = random.Random(0)
    (tmp_path / "jvm").mkdir()
    with java_iceberg.java(tmp_path / "jvm") as jvm:
        types, iceberg = jvm.org.apache.iceberg.types.Types, jvm.org.apache.iceberg
        listed = jvm.java.util.ArrayList()
        listed.append(types.NestedField.required(1, "k", types.IntegerType.get()))
        schema = iceberg.Schema(listed)
        for number in range(5):
            folder = tmp_path / f"java{number}"
            java = java_iceberg.JavaTable(
                jvm, folder, schema, iceberg.PartitionSpec.unpartitioned(), version=3
            )
            counts = [rng.randrange(1, 300) for _ in range(3)]
            files = [
                java.data_file([{"k": 1000 * i + k} for k in range(count)])
                for i, count in enumerate(counts)
            ]
            java.commit(files, [])
            before: dict[str, list[int]] = {}
            vectors: dict[str, Any] = {}
            for _ in range(4):
                chosen = rng.sample(range(3), 2)
                deleted: dict[str, list[int]] = {}
                for i in chosen:
                    first = rng.randrange(counts[i])
                    rows = list(range(first, min(counts[i], first + rng.choice([1, 40]))))
                    deleted[str(files[i].location())] = rows
                new = java.vectors(deleted, before)
                java.replace(new, [vectors[path] for path in deleted if path in vectors])
                for file in new:
                    vectors[str(file.referencedDataFile())] = file
                for path, rows in deleted.items():
                    before[path] = sorted({*before.get(path, ()), *rows})
            table = lake.register(f"n.t{number}", java.metadata_file)
            theirs = java_iceberg.rows_of(jvm, java.metadata_file, ["k"])
            assert sorted(table.to_table()["k"].to_pylist()) == sorted(k for (k,) in theirs)
            expected = sum(counts) - sum(map(len, before.values()))
            assert table.num_rows == expected
            for file in vectors.values():
                path = str(file.location()).removeprefix("file:")
                at, size = file.contentOffset(), file.contentSizeInBytes()
                blob = Path(path).read_bytes()[at : at + size]
                rows = before[str(file.referencedDataFile())]
                assert deleted_positions(blob, len(rows)).tolist() == rows
