"""A file that was cut short is refused, wherever it was cut."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import small_file

import nimblepy as nb

pytestmark = [pytest.mark.damage, pytest.mark.sanitizer]


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return small_file.content(tmp_path_factory.mktemp("small"))


def test_small_file_intact_reads_right(content: bytes) -> None:
    assert small_file.outcome(content) is False
    assert len(content) <= 5 << 10


def test_truncated_file_every_length_is_refused(content: bytes) -> None:
    for size in range(len(content)):
        with pytest.raises(nb.CorruptFileError):
            nb.open(content[:size])


def test_truncated_file_front_missing_is_refused_or_noticed(content: bytes) -> None:
    for begin in range(1, len(content)):
        assert small_file.outcome(content[begin:]) is True, f"first {begin} bytes missing"


def test_truncated_file_on_disk_is_refused_in_both_modes(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.nimble"
    for size in (0, 1, 63, 64, 65, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        for mmap in (True, False):
            with pytest.raises(nb.CorruptFileError, match=r"cut\.nimble"):
                nb.open(path, mmap=mmap)
        with pytest.raises(nb.CorruptFileError):
            nb.open(io.BytesIO(content[:size]))


def test_file_with_bytes_appended_or_inserted_is_refused_or_noticed(content: bytes) -> None:
    for extra in (b"\0", b"\n", b"x" * 64):
        assert small_file.outcome(content + extra) is True
    small_file.outcome(content + content[-64:])  # a second postscript: right rows or an error
    for at in range(8, len(content), 37):
        assert small_file.outcome(content[:at] + b"\0" + content[at:]) is True, f"inserted at {at}"


def test_file_with_a_hole_of_zeros_is_refused_or_noticed(content: bytes) -> None:
    for at in range(0, len(content), 64):
        hole = content[:at] + bytes(64) + content[at + 64 :]
        if len(hole) == len(content) and hole != content:
            assert small_file.outcome(hole) is True, (
                f"64 zeros at {at}\n{small_file.hex_dump(content, at)}"
            )
