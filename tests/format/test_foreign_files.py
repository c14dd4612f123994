"""Files of other formats, other versions and other features are refused by name, and nothing
crashes or hangs.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import forge
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import small_file

import nimblepy as nb

pytestmark = [pytest.mark.damage, pytest.mark.sanitizer]


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return small_file.content(tmp_path_factory.mktemp("small"))


def _parquet() -> bytes:
    sink = io.BytesIO()
    pa.parquet.write_table(small_file.TABLE, sink)
    return sink.getvalue()


def _feather() -> bytes:
    sink = io.BytesIO()
    pa.feather.write_feather(small_file.TABLE, sink)
    return sink.getvalue()


def _zip() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("a.txt", "hello")
    return sink.getvalue()


FOREIGN: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "one byte": lambda: b"x",
    "text": lambda: b"id,name\n1,anna\n" * 500,
    "json": lambda: json.dumps({"a": [1] * 1_000}).encode(),
    "zeros": lambda: bytes(100_000),
    "ones": lambda: b"\xff" * 100_000,
    "noise": lambda: np.random.default_rng(1).bytes(70_000),
    "parquet": _parquet,
    "feather": _feather,
    "zip": _zip,
    "only magic": lambda: forge.MAGIC,
    "magic at both ends": lambda: forge.MAGIC + bytes(200) + forge.MAGIC,
    "only a postscript": lambda: forge.with_postscript(bytes(56) + forge.MAGIC),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_open_foreign_bytes_is_a_corrupt_file_error(tmp_path: Path, name: str) -> None:
    data = FOREIGN[name]()
    path = tmp_path / "foreign.bin"
    path.write_bytes(data)
    for source in (str(path), path, data, io.BytesIO(data)):
        with pytest.raises(nb.NimbleError) as caught:
            nb.open(source)
        assert isinstance(caught.value, (nb.CorruptFileError, nb.UnsupportedVersionError))
    with pytest.raises(nb.NimbleError, match=r"foreign\.bin"):
        nb.open(path)


def test_forge_checksum_is_xxh3() -> None:
    # from the xxhash package: xxh3_64_intdigest(bytes(range(48)))
    assert forge.xxh3_64_of_48(bytes(range(48))) == 0x57433C648F7D24C9


def test_forge_unchanged_postscript_is_the_same_file(content: bytes) -> None:
    fields = forge.read_postscript(content)
    assert fields["major"] == 1
    assert forge.with_postscript(content, **fields) == content


@pytest.mark.parametrize("major", [2, 3, 255, 65_535])
def test_open_future_major_version_is_an_unsupported_version_error(
    content: bytes, major: int
) -> None:
    with pytest.raises(nb.UnsupportedVersionError, match=str(major)):
        nb.open(forge.with_postscript(content, major=major))


def test_open_file_of_a_pre_release_is_an_unsupported_version_error(
    tmp_path: Path, content: bytes
) -> None:
    old = tmp_path / "old.nimble"
    old.write_bytes(content[: -len(forge.MAGIC)] + b"NIMBLPY1")
    for written_before in (old, forge.with_postscript(content, major=0)):
        with pytest.raises(nb.UnsupportedVersionError, match=r"pre-release.*write the file again"):
            nb.open(written_before)


def test_open_future_minor_version_and_optional_feature_are_ignored(content: bytes) -> None:
    for fields in ({"minor": 9}, {"optional_features": 1 << 63}, {"optional_features": 2**64 - 1}):
        changed = forge.with_postscript(content, **fields)
        assert small_file.outcome(changed) is False, fields


def test_open_unknown_required_feature_is_an_unsupported_version_error(content: bytes) -> None:
    known = forge.read_postscript(content)["required_features"]
    for bit in (40, 62, 63):
        with pytest.raises(nb.UnsupportedVersionError):
            nb.open(forge.with_postscript(content, required_features=known | 1 << bit))


@pytest.mark.parametrize("value", [0, 1, 7, 63, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("field", ["footer_offset", "footer_size", "footer_checksum"])
def test_open_hostile_footer_location_is_refused(content: bytes, field: str, value: int) -> None:
    with pytest.raises(nb.CorruptFileError):
        nb.open(forge.with_postscript(content, **{field: value}))


def test_open_footer_location_whose_sum_wraps_is_refused(content: bytes) -> None:
    for size in (1, 64, 2**32, 2**63):
        with pytest.raises(nb.CorruptFileError):
            nb.open(forge.with_postscript(content, footer_offset=2**64 - size, footer_size=size))


def test_forge_postscript_checksum_is_checked(content: bytes) -> None:
    tail = bytearray(content)
    struct.pack_into(
        "<H", tail, len(tail) - forge.POSTSCRIPT_SIZE + 42, 1
    )  # a new minor, the old checksum
    with pytest.raises(nb.CorruptFileError):
        nb.open(bytes(tail))
