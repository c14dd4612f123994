"""Every single-bit flip of a small file gives an error of our tree or exactly the right rows,
on every read path.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import small_file

import nimblepy as nb

pytestmark = [pytest.mark.damage, pytest.mark.sanitizer]

EVERYTHING = os.environ.get("NIMBLEPY_TEST_PROFILE") == "deep"


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return small_file.content(tmp_path_factory.mktemp("small"))


def _flip(content: bytes, at: int, bits: int) -> bytes:
    flipped = bytearray(content)
    flipped[at] ^= bits
    return bytes(flipped)


def _reads(turn: int) -> list[str]:
    """Two read paths that touch everything, and one of the others in turn."""
    if EVERYTHING:
        return list(small_file.READS)
    others = [name for name in small_file.READS if name not in ("to_table", "lookup")]
    return ["to_table", "lookup", others[turn % len(others)]]


@pytest.mark.parametrize("bit", range(8))
def test_bit_flip_anywhere_is_an_error_or_right_rows(content: bytes, bit: int) -> None:
    silent = []
    for at in range(bit % small_file.EVERY, len(content), small_file.EVERY):
        # padding and small integers: most bytes are zero, so of these one bit each by default
        if content[at] == 0 and at % 8 != bit and not EVERYTHING:
            continue
        try:
            noticed = small_file.outcome(_flip(content, at, 1 << bit), reads=_reads(at + bit))
        except AssertionError as wrong:
            dump = small_file.hex_dump(content, at)
            raise AssertionError(f"bit {bit} of byte {at}\n{dump}") from wrong
        if not noticed and content[at] != 0:
            silent.append(at)
    # verify() covers everything but the zeros between aligned parts
    assert silent == [], f"flips that verify() did not notice: {silent[:20]}"


def test_random_damage_of_several_bytes_is_an_error_or_right_rows(content: bytes) -> None:
    rng = np.random.default_rng(99)
    for _ in range(1_000 // small_file.EVERY):
        damaged = bytearray(content)
        begin = int(rng.integers(0, len(content)))
        size = int(rng.integers(1, 40))
        damaged[begin : begin + size] = rng.bytes(len(damaged[begin : begin + size]))
        small_file.outcome(bytes(damaged), reads=_reads(begin))


def test_bit_flip_eager_verification_refuses_at_open(content: bytes) -> None:
    nb.open(content, verify="full")
    data = _flip(content, len(content) // 8, 0xFF)
    with pytest.raises(nb.CorruptFileError):
        nb.open(data, verify="lazy").verify()
    with pytest.raises(nb.CorruptFileError):
        nb.open(data, verify="full")
    with pytest.raises(nb.InvalidArgumentError, match="verify"):
        nb.open(content, verify="sometimes")


def test_bit_flip_in_one_column_leaves_other_columns_readable(content: bytes) -> None:
    # damage is found where it is touched: a reader of other columns goes on
    want = small_file.TABLE.select(["k"])
    survivors = 0
    for at in range(8, len(content), 5):
        try:
            file = nb.open(_flip(content, at, 0xFF))
            got = file.to_table(["k"])
        except (nb.NimbleError, OSError):
            continue
        assert got.equals(want)
        try:
            file.to_table()
        except (nb.NimbleError, OSError):
            survivors += 1
    assert survivors > 0


@pytest.mark.parametrize("read", ["to_table", "lookup", "get", "take", "range"])
def test_bit_flip_noticed_by_a_read_is_a_corrupt_file_error(content: bytes, read: str) -> None:
    # OSError is for faults of the operating system: these bytes were read well, and are wrong
    kinds = set()
    for at in range(8, len(content), 3):
        try:
            file = nb.open(_flip(content, at, 0xFF))
        except nb.CorruptFileError:
            continue
        try:
            small_file.READS[read][0](file)
        except (nb.NimbleError, OSError) as error:
            kinds.add(type(error))
    assert kinds == {nb.CorruptFileError}


def test_corrupt_error_names_the_place(content: bytes) -> None:
    messages = set()
    for at in range(0, len(content), 11):
        try:
            nb.open(_flip(content, at, 0x10)).verify()
        except nb.CorruptFileError as error:
            messages.add(str(error))
    assert messages
    vague = [message for message in messages if "offset" not in message and "magic" not in message]
    assert vague == [], "errors name the absolute offset of what is wrong"
