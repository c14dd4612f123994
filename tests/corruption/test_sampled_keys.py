"""Damage to a file whose index leaves keys to the columns is an error or does not show."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import forge
import nimblepy as nb
import small_file
from exact import assert_same_table
from nimblepy.verify.bits import checksum
from nimblepy.verify.reader import Container

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
