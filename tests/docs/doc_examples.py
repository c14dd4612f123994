"""Reads the examples out of docs/format.

Fenced blocks `hex KIND`: one field a line, `bytes | name = value (remark)`, integers little-endian
or varints. Indented blocks: hex bytes, then text; a line may begin with `head` or `body`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import numpy as np

from second_reader.keys import Leaf, encode_column
from second_reader.metadata import SchemaNode
from second_reader.schema import make_plan
from second_reader.values import Strings, Values

DOCS = Path(__file__).resolve().parents[2] / "docs"


@dataclass
class Fence:
    """One fenced block: ``info`` is what stands behind the backquotes."""

    page: Path
    info: str
    lines: list[str] = field(default_factory=list)


def blocks(page: Path) -> Iterator[Fence]:
    """All fenced blocks of a page."""
    block: Fence | None = None
    for line in page.read_text("utf-8").splitlines():
        if line.startswith("```"):
            if block is None:
                block = Fence(page, line[3:])
                continue
            yield block
            block = None
        elif block is not None:
            block.lines.append(line)


def fences(kind: str) -> list[Fence]:
    """All fenced blocks of docs whose info begins with `kind`."""
    found = (block for page in sorted(DOCS.rglob("*.md")) for block in blocks(page))
    return [block for block in found if block.info.split(" ")[0] == kind]


def fields(block: Fence) -> Iterator[tuple[bytes, str, int | None]]:
    """(bytes, name, value if one is given) of each line."""
    for line in block.lines:
        raw, _, text = line.partition("|")
        match = re.fullmatch(r"\s*([^=]*?)(?: = (-?\d+))?(?: \(.*\))?\s*", text)
        assert match, f"{block.page.name}: {line}"
        yield bytes.fromhex(raw), match[1], None if match[2] is None else int(match[2])


def varint(raw: bytes) -> int | None:
    """The number, if the bytes are exactly one varint."""
    if not raw or raw[-1] >= 0x80 or any(b < 0x80 for b in raw[:-1]):
        return None
    return sum((b & 0x7F) << (7 * i) for i, b in enumerate(raw))


def indented(page: str) -> list[list[str]]:
    """The indented blocks of a page."""
    blocks: list[list[str]] = [[]]
    for line in (DOCS / "format" / page).read_text("utf-8").splitlines():
        if line.startswith("    "):
            blocks[-1].append(line.strip())
        elif blocks[-1]:
            blocks.append([])
    return [b for b in blocks if b]


def hex_of(line: str) -> bytes:
    """The bytes at the beginning of a line, up to the first word that is none."""
    out = ""
    for word in line.split():
        if not re.fullmatch(r"([0-9a-f]{2})+", word):
            break
        out += word
    return bytes.fromhex(out)


def segment(block: list[str]) -> tuple[bytes, bytes]:
    """Head and body of an example."""
    parts = {"head": b"", "body": b""}
    at = "head"
    for line in block:
        label, _, rest = line.partition(" ")
        at, line = (label, rest) if label in parts else (at, line)
        parts[at] += hex_of(line)
    return parts["head"], parts["body"]


# ---- keys ----

FORMATS = {
    "bool": "b",
    "int8": "c",
    "int16": "s",
    "int32": "i",
    "int64": "l",
    "uint8": "C",
    "float16": "e",
    "float32": "f",
    "float64": "g",
    "date32": "tdD",
    "utf8": "u",
    "decimal64(10,2)": "d:10,2,64",
    "fixed_size_binary(3)": "w:3",
}
NAMES = {"∞": "inf", "any NaN": "nan", "±0.0": "-0.0", "2⁻¹⁰⁷⁴": "5e-324"}


def parse_value(format_: str, text: str) -> object:
    """A value as the tables write it."""
    text = text.replace("\N{MINUS SIGN}", "-")
    if text == "null":
        return None
    if format_ == "b":
        return text == "true"
    if format_ in "uw:3":
        found = re.findall(r'"([^"]*)"|`([0-9a-f ]+)`', text)
        return b"".join(a.encode() + bytes.fromhex(b) for a, b in found)
    if format_ == "tdD":
        return (date.fromisoformat(text) - date(1970, 1, 1)).days
    if format_ in "efg":
        return float(text.replace("∞", "inf") if "∞" in text else NAMES.get(text, text))
    return int(text.replace(".", ""))


def key_of(format_: str, value: object, *, desc: bool = False, nulls_first: bool = False) -> bytes:
    """The key of one value, by the second reader."""
    column = SchemaNode("c", format_, 2, [], [], None)
    node = make_plan(SchemaNode("", "+s", 0, [], [column], None)).nodes[1]
    values: Values
    if isinstance(value, bytes) and format_ == "u":
        values = Strings.repeat(value, 1)
    elif isinstance(value, bytes):
        values = np.frombuffer(value, np.uint8).reshape(1, -1)
    elif format_ == "u":
        values = Strings.repeat(b"", 1)
    elif format_ == "e":
        values = np.frombuffer(struct.pack("<e", value or 0), "<u2")
    elif node.key_kind == "bool":
        values = np.array([bool(value)])
    else:
        kind = "f" if node.key_kind == "float" else "i" if node.signed else "u"
        values = np.array([value or 0], f"<{kind}{node.width}")
    valid = np.zeros(1, bool) if value is None else None
    return encode_column(Leaf(node, valid, values, 1), desc, nulls_first)[0]
