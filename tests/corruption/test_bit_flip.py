"""Every single-bit flip of a small file gives an error of our tree or exactly the right rows,
on every read path.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import nimblepy as nb
import small_file

ALL_BITS = os.environ.get("NIMBLEPY_TEST_PROFILE") == "deep"


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return small_file.content(tmp_path_factory.mktemp("small"))


def _flip(content: bytes, at: int, bits: int) -> bytes:
    flipped = bytearray(content)
    flipped[at] ^= bits
    return bytes(flipped)


@pytest.mark.parametrize("bit", range(8))
def test_bit_flip_anywhere_is_an_error_or_right_rows(content: bytes, bit: int) -> None:
    silent = []
    for at in range(len(content)):
        try:
            noticed = small_file.outcome(
                _flip(content, at, 1 << bit),
                reads=None if at % 8 == bit or ALL_BITS else ["to_table", "lookup"],
            )
        except AssertionError as wrong:
            raise AssertionError(
                f"bit {bit} of byte {at}\n{small_file.hex_dump(content, at)}"
            ) from wrong
        if not noticed and content[at] != 0:
            silent.append(at)
    # verify() covers everything but the zeros between aligned parts
    assert silent == [], f"flips that verify() did not notice: {silent[:20]}"


def test_random_damage_of_several_bytes_is_an_error_or_right_rows(content: bytes) -> None:
    rng = np.random.default_rng(99)
    for _ in range(2_000):
        damaged = bytearray(content)
        begin = int(rng.integers(0, len(content)))
        size = int(rng.integers(1, 40))
        damaged[begin : begin + size] = rng.bytes(len(damaged[begin : begin + size]))
        small_file.outcome(bytes(damaged))


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
    survivors = 0
    for at in range(8, len(content) // 2):
        try:
            file = nb.open(_flip(content, at, 0xFF))
            want = small_file.TABLE.select(["k"])
            survivors += file.to_table(["k"]).equals(want)
        except nb.NimbleError:
            continue
    assert survivors > 0


def test_corrupt_error_names_the_place_and_what_was_expected(
    content: bytes, tmp_path: object
) -> None:
    messages = set()
    for at in range(0, len(content), 11):
        try:
            nb.open(_flip(content, at, 0x10)).verify()
        except nb.CorruptFileError as error:
            messages.add(str(error))
    assert messages
    assert all("offset" in m or "magic" in m for m in messages), [
        m for m in messages if "offset" not in m
    ][:3]
