"""The pages are true: examples decode as they say, excerpts are those of the schemas, links lead
somewhere, and the glossary has the words that are used.
"""

from __future__ import annotations

import re
import struct
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("xxhash")
sys.path.insert(0, str(Path(__file__).parent))  # doc_examples, under every import mode

from doc_examples import (
    DOCS,
    FORMATS,
    fences,
    fields,
    hex_of,
    indented,
    key_of,
    parse_value,
    segment,
    varint,
)

from second_reader import numbers, strings  # noqa: F401  (they register the decoders)
from second_reader.bits import Cursor, checksum, key_hash
from second_reader.chunks import BloomFilter, read_chunk
from second_reader.flat import FIELDS
from second_reader.tree import Body, Request, decode
from second_reader.values import BYTES, Strings, ValueType

ROOT = DOCS.parent
PAGES = sorted(DOCS.rglob("*.md"))
FORMAT_PAGES = sorted((DOCS / "format").glob("*.md"))
SCHEMAS = "\n".join(p.read_text("utf-8") for p in sorted((ROOT / "schemas").glob("*.fbs")))
HEADINGS = [
    "Purpose",
    "Bytes",
    "Worked example",
    "Lookup steps",
    "Exact results and supersets",
    "Limits and compatibility",
]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(DOCS)))
def test_links_between_pages_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", FORMAT_PAGES, ids=lambda p: p.name)
def test_format_pages_have_the_same_headings_in_order(page: Path) -> None:
    if page.name in ("index.md", "encodings.md", "encodings_numeric.md"):
        return  # a list, and catalogues of many small layouts
    found = re.findall(r"^## (.*)$", page.read_text("utf-8"), re.MULTILINE)
    places = [next((i for i, f in enumerate(found) if f.startswith(h)), -1) for h in HEADINGS]
    assert -1 not in places, f"{page.name} has {found}"
    assert places == sorted(places), f"{page.name} has {found}"


def test_format_index_names_every_page() -> None:
    index = (DOCS / "format" / "index.md").read_text("utf-8")
    assert [p.name for p in FORMAT_PAGES if p.name not in index and p.name != "index.md"] == []


def test_schema_excerpts_are_those_of_the_schemas() -> None:
    blocks = fences("fbs")
    assert len(blocks) > 3
    for block in blocks:
        text = "\n".join(block.lines)
        assert text in SCHEMAS, f"{block.page.name}: not in schemas/*.fbs:\n{text}"


def test_second_reader_numbers_fields_as_the_schemas_do() -> None:
    schemas = SCHEMAS
    for other in ("arrow_ipc", "serving_manifest"):  # it reads files only
        schemas = schemas.replace((ROOT / "schemas" / f"{other}.fbs").read_text("utf-8"), "")
    tables = re.findall(r"^table (\w+) \{(.*?)^\}", schemas, re.MULTILINE | re.DOTALL)
    found = {name: re.findall(r"^\s*(\w+):", body, re.MULTILINE) for name, body in tables}
    assert found == FIELDS


def test_hex_examples_have_the_values_that_they_name() -> None:
    checked = 0
    for block in [f for f in fences("hex") if not f.info.startswith("hex keys")]:
        for raw, name, value in fields(block):
            if value is not None:
                assert value in (int.from_bytes(raw, "little"), varint(raw)), f"{block.info} {name}"
                checked += 1
            elif name.startswith("magic"):
                assert raw == name.split('"')[1].encode()
    assert checked > 10


def test_postscript_example_checks_itself() -> None:
    (block,) = [f for f in fences("hex") if f.info == "hex postscript"]
    raw = b"".join(part for part, _, _ in fields(block))
    assert len(raw) == 64
    assert struct.unpack_from("<Q", raw, 48)[0] == checksum(raw[:48])


def test_segment_example_of_the_file_decodes_to_its_rows() -> None:
    page = [f for f in fences("hex") if f.page.name == "file.md"]
    head, raw = (
        b"".join(part for part, _, _ in fields(f))
        for info in ("hex head", "hex body")
        for f in page
        if f.info == info
    )
    body = Body(raw, Counter())
    values = decode(Request(Cursor(head, "example"), body, ValueType("int", 8, True), 3))
    body.finish()
    assert isinstance(values, np.ndarray)
    assert values.tolist() == [10, 20, 30]


def test_key_examples_are_what_the_second_reader_encodes() -> None:
    blocks = [f for f in fences("hex") if f.info.startswith("hex keys")]
    assert len(blocks) >= 2
    for block in blocks:
        format_ = block.info.split("format=")[1]
        for line in block.lines:
            raw, _, text = line.partition("|")
            assert bytes.fromhex(raw) == key_of(format_, parse_value(format_, text.strip())), line


def test_table_of_single_column_keys_is_right() -> None:
    rows = re.findall(
        r"^\| (\w.*?) \| (.*?) \| `([0-9a-f]+)` \| \| (\w.*?) \| (.*?) \| `([0-9a-f]+)` \|$",
        (DOCS / "format" / "keys.md").read_text("utf-8"),
        re.MULTILINE,
    )
    cases = [case for row in rows for case in (row[:3], row[3:])]
    assert len(cases) > 30
    for column, text, expected in cases:
        name, *order = column.split(" ", 1)
        options = {"desc": order == ["desc"], "nulls_first": order == ["nulls first"]}
        value = parse_value(FORMATS[name], text)
        assert key_of(FORMATS[name], value, **options).hex() == expected, f"{column} {text}"


def test_key_chunk_examples_hold_the_keys_that_the_page_says() -> None:
    chunks = [b for b in indented("key_chunks.md") if "checksum" in b[0]]
    fixed, prefixed = [b"".join(hex_of(line) for line in block) for block in chunks]
    assert (len(fixed), len(prefixed)) == (46, 40)
    assert read_chunk(fixed, 4) == [key_of("l", v) for v in (1000, 1010, 1023, 1030)]
    assert read_chunk(prefixed, 3) == [key_of("u", v) for v in (b"apple", b"apply", b"banana")]


def test_bloom_filter_examples_set_the_bits_that_the_page_says() -> None:
    text = (DOCS / "format" / "key_chunks.md").read_text("utf-8")
    rows = re.findall(r"^\| (`\w+`|empty) \| `(\w{16})` \| ([\d ]+) \|$", text, re.MULTILINE)
    assert len(rows) == 3
    for key_text, hash_text, bits_text in rows:
        key = b"" if key_text == "empty" else bytes.fromhex(key_text.strip("`"))
        bits = [int(b) for b in bits_text.split()]
        assert key_hash(key) == int(hash_text, 16)
        words = struct.pack("<8I", *[1 << b for b in bits])
        assert BloomFilter(words).might_contain(key)
        for i in range(8):  # each of the bits is needed
            without = words[: 4 * i] + bytes(4) + words[4 * i + 4 :]
            assert not BloomFilter(without).might_contain(key)


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("14            plain_bytes", [b"ab", b"", b"xyz"]),
        ("15            fsst", [b"abcd", b"ab!", b"cd"]),
    ],
)
def test_string_segment_examples_decode_to_the_strings(first: str, expected: list[bytes]) -> None:
    (block,) = [b for b in indented("encodings_strings.md") if first in b[0]]
    head, raw = segment(block)
    cursor, body = Cursor(head, "example"), Body(raw, Counter())
    values = decode(Request(cursor, body, BYTES, len(expected)))
    cursor.finish()
    body.finish()
    assert isinstance(values, Strings)
    assert values.to_list() == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bit_packed", [-2, 5, 3, 0, -1]),
        ("delta", [100, 103, 107, 110, 115]),
        ("dictionary", [1_000_000, 5, 5, 1_000_000, -1, 5]),
    ],
)
def test_numeric_segment_examples_decode_to_the_values(name: str, expected: list[int]) -> None:
    blocks = [f for f in fences("") if f.page.name == "encodings_numeric.md"]
    (block,) = [f for f in blocks if name in f.lines[0]]
    head, raw = segment([line.strip() for line in block.lines])
    cursor, body = Cursor(head, "example"), Body(raw, Counter())
    values = decode(Request(cursor, body, ValueType("int", 4, True), len(expected)))
    cursor.finish()
    body.finish()
    assert isinstance(values, np.ndarray)
    assert values.tolist() == expected


def _glossary() -> list[str]:
    rows = re.findall(
        r"^\| ([^|]+) \| ", (DOCS / "reference" / "glossary.md").read_text("utf-8"), re.MULTILINE
    )
    return [term.strip() for row in rows if row != "Term" for term in row.split(",")]


def test_glossary_has_only_words_that_are_used() -> None:
    places = [p for p in PAGES if p.name != "glossary.md"]
    for folder, pattern in (
        ("cpp", "*.h"),
        ("schemas", "*.fbs"),
        ("python", "*.py"),
        ("tests", "*.py"),
    ):
        places += sorted((ROOT / folder).rglob(pattern))
    text = "\n".join(p.read_text("utf-8") for p in places).lower()
    unused = [t for t in _glossary() if not re.search(rf"\b{re.escape(t.lower())}", text)]
    assert unused == []


def test_glossary_has_the_words_that_format_pages_define() -> None:
    # *word* at its definition in a page; those of one page only need no entry
    terms = {t.lower() for t in _glossary()}
    for word in ("stripe", "stripe group", "stream", "segment", "head", "body", "section", "zone"):
        assert word in terms
