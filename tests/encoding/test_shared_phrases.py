"""Phrases that the segments of a column share: whatever later segments are like, every way to read
the file gives the strings back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import forge
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from exact import assert_stays_when_indexes_change

import nimblepy as nb
from nimblepy import _core
from second_reader import verify_file
from second_reader.bits import checksum
from second_reader.metadata import read_footer

pytestmark = pytest.mark.model

ROWS = 9_000
STRIPE = 3_000
SYLLABLES = ["ka", "lo", "mi", "ster", "und", "ti", "ra", "ven", "or", "is", "che", "no"]
Strings = list[str | None]


def words(random: Random, count: int) -> list[str]:
    return ["".join(random.choices(SYLLABLES, k=random.randrange(2, 5))) for _ in range(count)]


def prose(random: Random, rows: int, vocabulary: list[str]) -> Strings:
    """Words that often stand together, more pairs of them than FSST has symbols."""
    pairs = [" ".join(random.choices(vocabulary, k=2)) for _ in range(400)]
    return [" ".join(random.choices(pairs, k=random.randrange(6, 20))) for _ in range(rows)]


def alike() -> Strings:
    random = Random(1)
    return prose(random, ROWS, words(random, 200))


def with_nulls() -> Strings:
    return [None if i % 3 == 0 else text for i, text in enumerate(alike())]


def half_null() -> Strings:
    return [text if i % 2 == 0 else None for i, text in enumerate(alike())]


def other_words() -> Strings:
    """Each stripe says something else, so that phrases of the first one are of no use."""
    random = Random(2)
    stripes = [prose(random, STRIPE, words(random, 200)) for _ in range(ROWS // STRIPE)]
    return [
        text if text is None else "".join(chr(ord(c) + 40 * n) for c in text)
        for n, stripe in enumerate(stripes)
        for text in stripe
    ]


def new_bytes() -> Strings:
    """The last stripe has bytes that the first has not, here and there."""
    return [
        f"{text} \u2603" if i >= 2 * STRIPE and i % 50 == 0 else text
        for i, text in enumerate(alike())
    ]


def sorted_words() -> Strings:
    """Neighbours begin alike: what is left of them shares phrases."""
    random = Random(4)
    return sorted(str(text) for text in prose(random, ROWS, words(random, 60)))


def few_phrases_then_new_bytes() -> Strings:
    """So few phrases that a place for every byte would make codes wider."""
    random = Random(3)
    text = ["".join(random.choices(["abababab", "cdcd", "a", "d"], k=30)) for _ in range(ROWS)]
    return [*text[:-1], "z"]


CASES = {
    "alike": alike,
    "with nulls": with_nulls,
    "half null": half_null,
    "other words": other_words,
    "new bytes": new_bytes,
    "sorted words": sorted_words,
    "few phrases, then new bytes": few_phrases_then_new_bytes,
}


def write(path: str, strings: Strings, compression: nb.Compression = "balanced") -> pa.Table:
    table = pa.table({"id": range(len(strings)), "s": pa.array(strings, pa.string())})
    options = nb.WriteOptions(compression=compression, stripe_rows=STRIPE, threads=1)
    nb.write(table, path, cluster_by="id", unique=True, options=options)
    return table


def sections(path: str) -> list[int]:
    """Nodes that have phrases."""
    with nb.open(path) as file:
        return [
            node for kind, node, _ in _core.sections(file._file.handle.core) if kind == "phrases"
        ]


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_strings_come_back_every_way(path: str, name: str, mmap: bool) -> None:
    table = write(path, CASES[name]())
    assert name == "sorted words" or sections(path) == [2]
    report = verify_file(path)
    assert report.ok, str(report)
    assert (report.counts["phrases"] > 0) == (sections(path) == [2])
    wanted = table["s"].to_pylist()
    random = Random(5)
    rows = [random.randrange(len(wanted)) for _ in range(300)]
    with nb.open(path, mmap=mmap) as file:
        assert file.take(rows)["s"].to_pylist() == [wanted[r] for r in rows]
        assert file.to_table().equals(table)
        for row in rows[:30]:
            assert file.get(row) == {"id": row, "s": wanted[row]}
        found = file.lookup(rows[:100])
        assert sorted(found["s"].to_pylist(), key=str) == sorted(
            (wanted[r] for r in rows[:100]), key=str
        )
        some = sorted(w for w in wanted if w is not None)[len(wanted) // 30]
        for test in (pc.field("s") == some, pc.field("s") < some, pc.field("s") != ""):
            assert file.scan(filter=test).to_table().equals(table.filter(test)), str(test)
        file.verify()


@pytest.mark.parametrize("mmap", [True, False])
def test_one_row_of_a_file_just_opened(path: str, mmap: bool) -> None:
    wanted = write(path, with_nulls())["s"].to_pylist()
    for row in (1, STRIPE + 1, ROWS - 1):
        with nb.open(path, mmap=mmap) as file:
            assert file.get(row, ["s"]) == {"s": wanted[row]}
        with nb.open(path, mmap=mmap) as file:
            assert file.take([row], columns=["s"])["s"].to_pylist() == [wanted[row]]


def test_nested_strings_share_phrases(path: str) -> None:
    text = alike()
    items = pa.array([text[i : i + 3] for i in range(0, ROWS, 3)], pa.list_(pa.string()))
    structs = pa.array([{"a": text[i], "b": None} for i in range(0, ROWS, 3)])
    table = pa.table({"l": items, "t": structs})
    nb.write(table, path, options=nb.WriteOptions(stripe_rows=1_500))
    assert len(sections(path)) == 2
    assert verify_file(path).ok
    for mmap in (True, False):
        with nb.open(path, mmap=mmap) as file:
            assert file.to_table().equals(table)
            assert file.take([7, 1_500])["l"].to_pylist() == [text[21:24], text[4500:4503]]


@pytest.mark.parametrize("compression", ["balanced", "compact"])
def test_bytes_do_not_depend_on_threads(tmp_path: Path, compression: nb.Compression) -> None:
    text = alike()
    lists = pa.array([text[i : i + 3] for i in range(0, ROWS, 3)] * 50, pa.list_(pa.string()))
    table = pa.table({"l": lists, "s": pa.array(text * 17).slice(0, len(lists))})
    found = set()
    for threads in (1, 2, 5):
        path = tmp_path / f"{threads}.nimble"
        options = nb.WriteOptions(compression=compression, threads=threads, stripe_rows=200_000)
        nb.write(table, path, options=options)
        found.add(path.read_bytes())
    assert len(found) == 1
    assert nb.open(path).to_table().equals(table)


def test_phrases_stay_when_indexes_change(path: str) -> None:
    table = write(path, alike())
    assert_stays_when_indexes_change(path, table, "s")


def test_text_of_few_bytes_has_no_table(path: str) -> None:
    write(path, alike()[:20])
    assert sections(path) == []


def test_a_cold_row_of_text_is_one_data_read(path: str) -> None:
    """The first read of the file brings the phrases along."""
    wanted = write(path, alike())["s"].to_pylist()
    for row in (3, ROWS - 3):
        with nb.open(path, mmap=False) as file:
            file.reset_io_stats()
            assert file.get(row, ["s"]) == {"s": wanted[row]}
            assert file.io_stats.data_reads <= 1
            assert file.io_stats.rounds <= 3


def test_damaged_phrases_are_found(path: str) -> None:
    write(path, alike())
    content = bytearray(Path(path).read_bytes())
    with nb.open(path) as file:
        size = next(s for kind, _, s in _core.sections(file._file.handle.core) if kind == "phrases")
        footer = forge.read_postscript(bytes(content))["footer_offset"]
    content[footer - size // 2] ^= 1  # the last section before the footer
    Path(path).write_bytes(content)
    assert not verify_file(path).ok
    for mmap in (True, False):
        with nb.open(path, mmap=mmap) as file:
            assert file.to_table(["id"]).num_rows == ROWS
            with pytest.raises(nb.CorruptFileError, match="phrases of column 's'"):
                file.get(5)
            with pytest.raises(nb.CorruptFileError, match="phrases of column 's'"):
                file.to_table()


Ref = tuple[int, int, int, int]  # node, and the section's offset, size and checksum


@pytest.mark.parametrize(
    ("forge_refs", "told"),
    [
        (lambda a, b: (b, a), "do not follow"),
        (lambda a, b: ((1, *a[1:]), b), "not text"),
        (lambda a, b: (a, (99, *b[1:])), "not text"),
        (lambda a, b: (a, (b[0], b[1] - 70_000, 70_000, b[3])), "70000 bytes"),
        (lambda a, b: (a, (b[0], 1 << 60, *b[2:])), "phrases"),
    ],
    ids=["swapped", "of integers", "of no column", "too large", "outside"],
)
def test_forged_footers_are_refused(
    path: str, forge_refs: Callable[[Ref, Ref], tuple[Ref, Ref]], told: str
) -> None:
    table = pa.table({"id": range(ROWS), "a": alike(), "b": alike()[::-1]})
    nb.write(table, path, options=nb.WriteOptions(stripe_rows=STRIPE))
    content = Path(path).read_bytes()
    place = forge.read_postscript(content)
    begin, end = place["footer_offset"], place["footer_offset"] + place["footer_size"]
    found = read_footer(content).phrases
    refs = [(p.node, p.section.offset, p.section.size, p.section.checksum) for p in found]
    assert [ref[0] for ref in refs] == [2, 3]
    footer = content[begin:end]
    forged = footer.replace(packed(*refs), packed(*forge_refs(refs[0], refs[1])))
    assert forged != footer
    wrong = forge.with_postscript(
        content[:begin] + forged + content[end:], footer_checksum=checksum(forged)
    )
    Path(path).write_bytes(wrong)
    with pytest.raises(nb.CorruptFileError, match=told):
        nb.open(path)
    assert not verify_file(path).ok


def packed(*refs: Ref) -> bytes:
    return b"".join(struct.pack("<2I3Q", ref[0], 0, *ref[1:]) for ref in refs)
