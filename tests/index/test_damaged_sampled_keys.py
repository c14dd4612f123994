"""Damage to a file whose index leaves keys to the columns is an error or does not show."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from random import Random
from typing import Any

import forge
import numpy as np
import pyarrow as pa
import pytest
import small_file
from exact import assert_same_table

import nimblepy as nb
from second_reader.bits import checksum
from second_reader.reader import Container

pytestmark = [pytest.mark.damage, pytest.mark.sanitizer]

N = 72
IDS = sorted(hashlib.sha256(bytes([i])).hexdigest()[:20] for i in range(N))
TABLE = pa.table({"id": IDS, "v": pa.array([i * i % 251 for i in range(N)], pa.int64())})
ABSENT = [key[:-1] for key in IDS[::9]]


def _rows(*rows: int) -> Any:
    return lambda got: assert_same_table(got, TABLE.take(list(rows)))


def _is(want: Any) -> Any:
    def check(got: Any) -> None:
        assert got == want, f"{got!r} instead of {want!r}"

    return check


WAYS: small_file.Ways = {
    "to_table": (lambda f: f.to_table(), _rows(*range(N))),
    "get": (lambda f: [f.get(IDS[i])["v"] for i in (7, 16, 71)], _is([49, 5, 21])),
    "get absent": (lambda f: [f.get(key) for key in ABSENT], _is([None] * len(ABSENT))),
    "lookup": (lambda f: f.lookup([IDS[33], IDS[2], IDS[64]]), _rows(33, 2, 64)),
    "contains": (lambda f: f.contains([*IDS[3:50:5], "x"]).to_pylist(), _is([True] * 10 + [False])),
    "count": (lambda f: f.count([IDS[31], ABSENT[1]]).to_pylist(), _is([1, 0])),
    "range": (lambda f: f.range(IDS[5], IDS[40]), _rows(*range(5, 40))),
    "prefix": (lambda f: f.prefix(nb.starts_with(IDS[47][:12])), _rows(47)),
}


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sampled") / "t.nimble"
    nb.write(TABLE, path, cluster_by="id", presorted=True, unique=True)
    data = Path(path).read_bytes()
    assert forge.read_postscript(data)["required_features"] == 1
    return data


def test_intact_file_reads_right(content: bytes) -> None:
    assert small_file.outcome(content, ways=WAYS) is False
    assert len(content) <= 5 << 10


def test_every_truncation_is_refused(content: bytes) -> None:
    for size in range(len(content)):
        with pytest.raises(nb.CorruptFileError):
            nb.open(content[:size])


@pytest.mark.parametrize("bit", range(8))
def test_every_bit_flip_is_an_error_or_right_rows(content: bytes, bit: int) -> None:
    names = list(WAYS)
    for at in range(bit % small_file.EVERY, len(content), small_file.EVERY):
        if content[at] == 0 and at % 8 != bit:
            continue
        flipped = bytearray(content)
        flipped[at] ^= 1 << bit
        turn = at + bit
        reads = ["lookup", names[turn % len(names)], names[(turn + 3) % len(names)]]
        noticed = small_file.outcome(bytes(flipped), reads=reads, ways=WAYS)
        assert noticed or content[at] == 0, f"bit {bit} of byte {at} is not noticed"


def test_damage_under_a_valid_checksum_never_crashes(content: bytes) -> None:
    """Answers may be wrong then, but they are answers or errors of ours."""
    random = Random(5)
    chunks = Container(content).group(0).chunks
    assert chunks is not None
    begin, size = chunks.offset, chunks.ends[0]
    for _ in range(400 // small_file.EVERY):
        chunk = bytearray(content[begin : begin + size])
        for _ in range(random.randrange(1, 4)):
            chunk[random.randrange(8, size)] = random.randrange(256)
        chunk[:8] = checksum(bytes(chunk[8:])).to_bytes(8, "little")
        _ask_all(content[:begin] + bytes(chunk) + content[begin + size :])


def _ask_all(data: bytes) -> None:
    for source in (data, io.BytesIO(data)):  # the latter is not mapped
        file = nb.open(source)
        for name, (read, _) in WAYS.items():
            try:
                read(file)
            except nb.NimbleError:
                continue
            except TypeError:
                assert name == "get"  # None["v"]


def test_random_damage_is_an_error_or_right_rows(content: bytes) -> None:
    rng = np.random.default_rng(7)
    for _ in range(500 // small_file.EVERY):
        damaged = bytearray(content)
        begin, size = int(rng.integers(0, len(content))), int(rng.integers(1, 40))
        damaged[begin : begin + size] = rng.bytes(len(damaged[begin : begin + size]))
        small_file.outcome(bytes(damaged), ways=WAYS)


def test_keys_after_the_last_one_of_a_file_that_is_not_mapped(
    content: bytes, tmp_path: Path
) -> None:
    """Found by fuzzing: none of the probes opens a chunk, so no columns are to be read ahead."""
    path = tmp_path / "t.nimble"
    path.write_bytes(content)
    with nb.open(path, mmap=False) as file:
        assert file.contains(["x", "y", "zz"]).to_pylist() == [False] * 3
        assert file.lookup(["zz", "y"]).num_rows == 0
        assert file.get("zz") is None


def _with_numbers(data: bytes, before: pa.Array, after: pa.Array) -> bytes:
    """A file whose plain 64-bit numbers are others, with right checksums."""
    old, new = (np.asarray(numbers, "<i8").tobytes() for numbers in (before, after))
    start, found = data.find(old), bytearray(data)
    assert start > 0
    block = next(
        size
        for size in (1 << i for i in range(13, 5, -1))
        if data.count(_checksum(old[:size])) == 1
    )
    found[start : start + len(old)] = new
    for at in range(0, len(old), block):
        here = slice(at, at + block)
        found = bytearray(bytes(found).replace(_checksum(old[here]), _checksum(new[here])))
    group = Container(data).footer.groups[0][0]
    whole = _checksum(bytes(found[group.offset : group.offset + group.size]))
    found = bytearray(bytes(found).replace(group.checksum.to_bytes(8, "little"), whole))
    footer = Container(data).footer.place
    at_end = bytes(found[footer.offset : footer.offset + footer.size])
    return forge.with_postscript(bytes(found), footer_checksum=checksum(at_end))


def _checksum(octets: bytes) -> bytes:
    return checksum(octets).to_bytes(8, "little")


def _answers(path: Path, keys: pa.Table, want: list[int]) -> tuple[int, int]:
    """How many keys were found, and were an error; a row of another key is neither."""
    found = errors = 0
    for mmap in (True, False):
        file = nb.open(path, mmap=mmap)
        for i, row in enumerate(keys.to_pylist()):
            key = tuple(row.values()) if len(row) > 1 else next(iter(row.values()))
            asked = keys.slice(i, 1)
            for ask in (
                lambda file=file, key=key: [file.get(key)],
                lambda file=file, key=key: [file.get(key, columns=["v"])],
                lambda file=file, asked=asked: file.lookup(asked).to_pylist(),
                lambda file=file, asked=asked: file.lookup(asked, columns=["v"]).to_pylist(),
            ):
                try:
                    rows = [row["v"] for row in ask() if row is not None]
                except nb.CorruptFileError:
                    errors += 1
                    continue
                assert rows in ([], [want[i]]), (row, rows, want[i])
                found += len(rows)
    return found, errors


@pytest.mark.parametrize("by", [["a"], ["a", "b"]])
def test_keys_between_samples_in_another_order(tmp_path: Path, by: list[str]) -> None:
    rng, count = np.random.default_rng(1), 256
    a = np.sort(rng.integers(-(2**62), 2**62, count))
    b = rng.integers(-(2**62), 2**62, count)
    path = tmp_path / "t.nimble"
    rows = pa.table({"a": a, "b": b, "v": np.arange(count)})
    nb.write(rows, path, cluster_by=by, presorted=True)
    mixed = a.copy()
    for group in range(0, count, 16):
        mixed[group + 1 : group + 16] = rng.permutation(mixed[group + 1 : group + 16])
    path.write_bytes(_with_numbers(path.read_bytes(), a, mixed))
    keys = pa.table({"a": mixed, "b": b}).select(by)
    found, errors = _answers(path, keys, list(range(count)))
    assert found > 0
    assert errors > 0


def test_a_row_that_lacks_what_its_neighbours_share(tmp_path: Path) -> None:
    rng, count = np.random.default_rng(1), 512
    a, b = (rng.integers(-(2**62), 2**62, count) for _ in range(2))
    a = np.sort(a)
    a[160:200] = a[160]
    b[160:200].sort()
    path = tmp_path / "t.nimble"
    rows = pa.table({"a": a, "b": b, "v": np.arange(count)})
    nb.write(rows, path, cluster_by=["a", "b"], presorted=True)
    other = a.copy()
    other[170] = 12345
    path.write_bytes(_with_numbers(path.read_bytes(), a, other))
    asked = pa.table({"a": a[170:171], "b": b[170:171]})
    _, errors = _answers(path, asked, [-1])  # there is no such row any more
    assert errors > 0
