"""Forges postscripts with a valid checksum, so that tests reach the checks behind it. Layout:
docs/format/file.md.
"""

from __future__ import annotations

import struct

POSTSCRIPT_SIZE = 64
MAGIC = b"NIMBLEPY"
# offset, struct code of each postscript field
FIELDS = {
    "footer_offset": (0, "<Q"),
    "footer_size": (8, "<Q"),
    "footer_checksum": (16, "<Q"),
    "required_features": (24, "<Q"),
    "optional_features": (32, "<Q"),
    "major": (40, "<H"),
    "minor": (42, "<H"),
    "reserved": (44, "<I"),
}
_SECRET = bytes.fromhex(  # the first 64 bytes of XXH3's default secret
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
)
_MASK = (1 << 64) - 1


def xxh3_64_of_48(data: bytes) -> int:
    """XXH3-64 of exactly 48 bytes (its 33..64 byte branch)."""
    assert len(data) == 48

    def mix(at: int, secret: int) -> int:
        low, high = struct.unpack_from("<QQ", data, at)
        key_low, key_high = struct.unpack_from("<QQ", _SECRET, secret)
        product = (low ^ key_low) * (high ^ key_high)
        return (product & _MASK) ^ (product >> 64)

    acc = 48 * 0x9E3779B185EBCA87
    acc += mix(16, 32) + mix(16, 48) + mix(0, 0) + mix(32, 16)
    acc &= _MASK
    acc ^= acc >> 37
    acc = acc * 0x165667919E3779F9 & _MASK
    return acc ^ (acc >> 32)


def read_postscript(content: bytes) -> dict[str, int]:
    tail = content[-POSTSCRIPT_SIZE:]
    return {name: struct.unpack_from(code, tail, at)[0] for name, (at, code) in FIELDS.items()}


def with_postscript(content: bytes, **fields: int) -> bytes:
    """The file with these postscript fields changed and the postscript's checksum made right
    again.
    """
    tail = bytearray(content[-POSTSCRIPT_SIZE:])
    for name, value in fields.items():
        at, code = FIELDS[name]
        struct.pack_into(code, tail, at, value)
    struct.pack_into("<Q", tail, 48, xxh3_64_of_48(bytes(tail[:48])))
    return content[:-POSTSCRIPT_SIZE] + bytes(tail)
