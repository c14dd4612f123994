"""Dictionaries that the segments of a column share: whatever later segments are like, every way to
read the file gives the values back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forge
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from exact import assert_stays_when_indexes_change
from hypothesis import given
from hypothesis import strategies as st

import nimblepy as nb
from nimblepy import _core
from second_reader import verify_file
from second_reader.bits import checksum
from second_reader.metadata import read_footer

pytestmark = pytest.mark.model

ROWS = 12_000
STRIPE = 3_000


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def codes(distinct: int, seed: int = 2) -> Any:
    return rng(seed).integers(0, distinct, ROWS)


def values(distinct: int) -> Any:
    return rng().integers(-(2**62), 2**62, distinct)


def texts(distinct: int) -> pa.Array:
    return pa.array([f"{v & 0xFFFFFFFFFF:x} of {v % 977}" for v in values(distinct).tolist()])


def nulls(share: float) -> Any:
    return rng(3).random(ROWS) < share


def growing() -> pa.Array:
    """Each stripe has values that the ones before it have not."""
    return pa.array(values(1_000)[codes(700) + np.arange(ROWS) // STRIPE * 100])


def foreign_middle() -> pa.Array:
    """Stripes two and three have nothing of the first, the last has all of it again."""
    own = values(1_000)[codes(700)]
    own[STRIPE : 3 * STRIPE] = rng(5).integers(0, 2**60, 2 * STRIPE)
    return pa.array(own)


def few_after_many() -> pa.Array:
    """Later stripes need a small dictionary of their own at most."""
    own = values(1_000)[codes(700)]
    own[STRIPE:] = own[codes(3)[STRIPE:]]
    return pa.array(own)


def taken(distinct: pa.Array, share: float = 0.0) -> pa.Array:
    return distinct.take(pa.array(codes(len(distinct)), mask=nulls(share)))


CASES: dict[str, Callable[[], pa.Array]] = {
    "int": lambda: pa.array(values(700)[codes(700)]),
    "int with nulls": lambda: pa.array(values(700)[codes(700)], mask=nulls(0.4)),
    "int with few nulls": lambda: pa.array(values(700)[codes(700)], mask=nulls(0.02)),
    "growing": growing,
    "foreign middle": foreign_middle,
    "few after many": few_after_many,
    "float": lambda: pa.array(rng().standard_normal(700)[codes(700)]),
    "float32": lambda: pa.array(rng().standard_normal(1_000).astype(np.float32)[codes(1_000)]),
    "nan": lambda: pa.array(np.where(codes(9) == 0, np.nan, rng().random(700)[codes(700)])),
    "date": lambda: taken(pa.array(values(700) % 10**15, pa.timestamp("us"))),
    "decimal": lambda: taken(pa.array(values(700)).cast(pa.decimal128(38, 2))),
    "narrow decimal": lambda: taken(pa.array(values(700) // 10**3).cast(pa.decimal128(38, 2))),
    "runs of ids": lambda: pa.array(np.repeat(values(700)[codes(700)[: ROWS // 4]], 4)),
    "binary": lambda: taken(pa.array([b"%020d" % abs(v) for v in values(700)], pa.binary(20)), 0.1),
    "text": lambda: taken(texts(700)),
    "text with nulls": lambda: taken(texts(700), 0.4),
    "text with few nulls": lambda: taken(texts(700), 0.02),
    "text with empty": lambda: taken(pa.concat_arrays([texts(400), pa.array([""] * 200)])),
    "text with both": lambda: taken(pa.concat_arrays([texts(400), pa.array([""] * 200)]), 0.3),
    "view": lambda: taken(texts(700)).cast(pa.string_view()),
    "large": lambda: taken(texts(700), 0.2).cast(pa.large_string()),
    "runs": lambda: taken(texts(700)).take(pa.array(np.repeat(np.arange(ROWS // 10), 10))),
}
NOT_SHARED = {"runs"}


def write(path: str, column: pa.Array, compression: nb.Compression = "balanced") -> pa.Table:
    table = pa.table({"id": range(len(column)), "v": column})
    options = nb.WriteOptions(compression=compression, stripe_rows=STRIPE, threads=1)
    nb.write(table, path, cluster_by="id", unique=True, options=options)
    return table


def sections(path: str) -> list[int]:
    """Nodes that have a shared dictionary."""
    with nb.open(path) as file:
        found = _core.sections(file._file.handle.core)
    return [node for kind, node, _ in found if kind == "shared_dictionary"]


def bits(column: pa.ChunkedArray) -> list[object]:
    """Values that compare by their bits."""
    if pa.types.is_floating(column.type):
        width = column.type.bit_width // 8
        raw = [None if v is None else v for v in column.to_pylist()]
        return [None if v is None else struct.pack("<d", v)[:] + bytes([width]) for v in raw]
    return column.to_pylist()


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("compression", ["balanced", "compact"])
@pytest.mark.parametrize("name", CASES)
def test_values_come_back_every_way(
    path: str, name: str, compression: nb.Compression, mmap: bool
) -> None:
    table = write(path, CASES[name](), compression)
    if compression == "balanced" and name not in NOT_SHARED:
        assert sections(path) == [2]
    report = verify_file(path)
    assert report.ok, str(report)
    wanted = bits(table["v"])
    rows = rng(7).integers(0, ROWS, 300).tolist()
    with nb.open(path, mmap=mmap) as file:
        assert bits(file.take(rows)["v"]) == [wanted[r] for r in rows]
        assert bits(file.to_table()["v"]) == wanted
        for row in rows[:30]:
            assert file.get(row, ["v"]) == {"v": table["v"][row].as_py()} or name == "nan"
        if name not in ("view", "binary"):
            some = pc.drop_null(table["v"])[len(table) // 3]
            field = pc.field("v")
            for test in (field == some, field < some, field != some, field.is_null()):
                expected = table.filter(test)["id"]
                assert file.scan(filter=test).to_table()["id"].equals(expected), str(test)
        file.verify()


@pytest.mark.parametrize("mmap", [True, False])
def test_one_row_of_a_file_just_opened(path: str, mmap: bool) -> None:
    for name in ("int with nulls", "growing", "text with nulls"):
        table = write(path, CASES[name]())
        for row in (1, STRIPE + 1, ROWS - 1):
            with nb.open(path, mmap=mmap) as file:
                assert file.get(row, ["v"]) == {"v": table["v"][row].as_py()}
            with nb.open(path, mmap=mmap) as file:
                assert file.take([row], columns=["v"])["v"].to_pylist() == [table["v"][row].as_py()]


def test_distinct_values_are_stored_once(path: str) -> None:
    column = pa.array(values(900)[codes(900)])
    write(path, column)
    coded = ROWS * 10 / 8 + 900 * 8
    assert Path(path).stat().st_size < coded + 5_000  # checksums, footer, keys


def test_what_a_segment_added_is_dropped_with_its_codes(path: str) -> None:
    """Stripes of other values store none of them for the column."""
    write(path, foreign_middle())
    dictionary = read_footer(Path(path).read_bytes()).shared_dictionaries[0]
    assert dictionary.count == 700


def test_a_cold_row_is_one_data_read(path: str) -> None:
    """The first read of the file brings the dictionary along."""
    for name in ("int", "text", "growing"):
        table = write(path, CASES[name]())
        for row in (3, ROWS - 3):
            with nb.open(path, mmap=False) as file:
                file.reset_io_stats()
                assert file.get(row, ["v"]) == {"v": table["v"][row].as_py()}
                assert file.io_stats.data_reads <= 1
                assert file.io_stats.rounds <= 3


def test_a_large_dictionary_is_read_in_the_round_of_the_first_block(path: str) -> None:
    distinct = rng().integers(0, 2**62, 40_000)
    table = pa.table({"id": np.arange(200_000), "v": distinct[rng().integers(0, 40_000, 200_000)]})
    nb.write(table, path, cluster_by="id", presorted=True, unique=True)
    assert sections(path) == [2]
    with nb.open(path, mmap=False) as file:
        file.reset_io_stats()
        for row, reads in ((7, 2), (150_000, 3)):  # the dictionary once, and a block each
            assert file.get(row, ["v"]) == {"v": table["v"][row].as_py()}
            assert file.io_stats.data_reads == reads
        assert file.io_stats.rounds <= 5
    with nb.open(path, mmap=False) as file:
        assert file.to_table().equals(table)


def test_values_in_lists_and_structs_share(path: str) -> None:
    flat = values(500)[codes(500)]
    lists = pa.ListArray.from_arrays(np.arange(0, ROWS + 1, 3, dtype=np.int32), flat)
    structs = pa.StructArray.from_arrays([taken(texts(300)).slice(0, len(lists))], ["a"])
    table = pa.table({"l": lists, "s": structs})
    nb.write(table, path, options=nb.WriteOptions(stripe_rows=1_000))
    assert len(sections(path)) == 2
    assert verify_file(path).ok
    for mmap in (True, False):
        with nb.open(path, mmap=mmap) as file:
            assert file.to_table().equals(table)
            assert file.take([7, 3_500]).equals(table.take([7, 3_500]))


@pytest.mark.parametrize("compression", ["balanced", "compact"])
def test_bytes_do_not_depend_on_threads(tmp_path: Path, compression: nb.Compression) -> None:
    n = 400_000  # items of lists: several segments a stripe
    flat = values(3_000)[rng().integers(0, 3_000, n)]
    lists = pa.ListArray.from_arrays(np.arange(0, n + 1, 4, dtype=np.int32), flat)
    table = pa.table({"l": lists, "t": texts(2_000).take(rng(8).integers(0, 2_000, n // 4))})
    found = set()
    for threads in (1, 2, 5):
        path = tmp_path / f"{threads}.nimble"
        options = nb.WriteOptions(compression=compression, threads=threads, stripe_rows=60_000)
        nb.write(table, path, options=options)
        found.add(path.read_bytes())
    assert len(found) == 1
    assert len(sections(str(path))) == 2
    assert nb.open(path).to_table().equals(table)


def test_dictionaries_stay_when_indexes_change(path: str) -> None:
    table = write(path, CASES["text"]())
    assert_stays_when_indexes_change(path, table, "v")


def test_floats_whose_high_bits_take_many_values(path: str) -> None:
    """These are integers beside the floats that the dictionary is of."""
    n = 30_000
    high = rng().integers(0x3000, 0x6F00, 1_300).astype(np.uint32)
    pool = high[rng(2).integers(0, 1_300, n)] << 16 | rng(3).integers(0, 1 << 16, n, np.uint32)
    for distinct in (3_000, 8_000, 12_000, 20_000):
        first = pool[rng(4).integers(0, 500, n)]
        other = pool[rng(5).integers(0, distinct, 2 * n)]
        other[::200] = pool[0]
        for column in (
            np.concatenate([first, other]).view(np.float32),
            rng(6).standard_normal(3 * n) * 10 ** rng(7).uniform(-8, 8, 3 * n),
        ):
            for compression in ("balanced", "compact"):
                table = pa.table({"v": column})
                options = nb.WriteOptions(stripe_rows=n, compression=compression)
                nb.write(table, path, options=options)
                assert nb.open(path).to_table().equals(table)
                assert verify_file(path).ok


def test_numbers_at_equal_distances_stay_when_indexes_change(path: str) -> None:
    """As a dictionary all of them would be in its head, with a body of no bytes."""
    n = 60_000
    names = pa.array(np.arange(2_000) * (2**50 + 1))
    for compression in ("balanced", "compact"):
        table = pa.table({"id": np.arange(n), "v": names.take(rng().integers(0, 2_000, n))})
        options = nb.WriteOptions(compression=compression, stripe_rows=20_000)
        nb.write(table, path, options=options, indexes=[nb.HashIndex("id")])
        nb.drop_index(path, "id")
        for mmap in (True, False):
            with nb.open(path, mmap=mmap) as file:
                file.verify()
                assert file.to_table().equals(table)
        assert verify_file(path).ok


def test_small_dictionaries_stay_near_the_footer(path: str) -> None:
    n = 100_000
    columns = {
        f"v{size}": rng().integers(0, 2**62, size)[rng(2).integers(0, size, n)]
        for size in (600, 20_000, 700)
    }
    nb.write(pa.table({"id": np.arange(n), **columns}), path, cluster_by="id", presorted=True)
    for _ in range(2):
        with nb.open(path, mmap=False) as file:
            file.reset_io_stats()
            assert file.take([77_000], columns=["v600"])["v600"].to_pylist() == [
                columns["v600"][77_000]
            ]
            assert file.io_stats.data_reads == 1
        if not nb.open(path).indexes[1:]:
            nb.add_index(path, nb.HashIndex("v700"))


def test_more_dictionaries_than_the_cache_has_room_for(path: str) -> None:
    n = 40_000
    columns = {f"v{i}": rng(i).integers(0, 2**62, 9_000) for i in range(8)}
    table = pa.table({k: v[rng(9).integers(0, 9_000, n)] for k, v in columns.items()})
    nb.write(table, path)
    size = Path(path).stat().st_size
    for budget in (0, 100_000, 400_000, 64 << 20):
        with nb.open(path, mmap=False, cache_bytes=budget) as file:
            file.reset_io_stats()
            assert file.take([5]).equals(table.take([5]))
            assert file.io_stats.bytes_read < size


def test_many_long_texts_share(path: str) -> None:
    """Of which each stripe has most, and each a few that no other has."""
    n = 120_000
    pool = [f"https://example.org/{i * 7919 % 9973}/{i:07}?from={i * i}" for i in range(14_000)]
    row = rng().integers(0, 14_000, n)
    text = pa.array([pool[i] if i % 500 else f"{pool[i]}#{k}" for k, i in enumerate(row.tolist())])
    table = pa.table({"v": text})
    nb.write(table, path, options=nb.WriteOptions(stripe_rows=30_000))
    assert Path(path).stat().st_size < n * 14 / 8 * 1.1 + 14_000 * 20
    assert nb.open(path).to_table().equals(table)


@given(data=st.data())
def test_stripes_of_any_values_come_back(tmp_path_factory: Any, data: st.DataObject) -> None:
    """Each stripe has values of some pools, of which later ones may be new."""
    pool = values(2_000)
    stripes = []
    for _ in range(data.draw(st.integers(1, 5))):
        begin = data.draw(st.sampled_from([0, 0, 100, 1_000]))
        size = data.draw(st.sampled_from([1, 3, 300, 300, 600, 1_000]))
        seed = data.draw(st.integers(0, 9))
        part = pool[begin + rng(seed).integers(0, size, 900)].astype(object)
        part[rng(seed).random(900) < data.draw(st.sampled_from([0.0, 0.0, 0.05, 0.5, 1.0]))] = None
        stripes.append(part)
    numbers = pa.array(np.concatenate(stripes), pa.int64())
    table = pa.table({"n": numbers, "t": numbers.cast(pa.string())})
    path = str(tmp_path_factory.mktemp("stripes") / "t.nimble")
    compression = data.draw(st.sampled_from(["balanced", "compact", "fast"]))
    nb.write(table, path, options=nb.WriteOptions(stripe_rows=900, compression=compression))
    with nb.open(path, mmap=data.draw(st.booleans())) as file:
        rows = rng().integers(0, len(table), 50).tolist()
        assert file.take(rows).equals(table.take(rows))
        assert file.to_table().equals(table)


# ------------------------------------------------------------------------ damage


def test_a_damaged_dictionary_is_found(path: str) -> None:
    write(path, CASES["text"]())
    whole = Path(path).read_bytes()
    ref = read_footer(whole).shared_dictionaries[0]
    for section in (ref.head, ref.body):
        content = bytearray(whole)
        content[section.offset + section.size // 2] ^= 1
        Path(path).write_bytes(content)
        assert not verify_file(path).ok
        for mmap in (True, False):
            with nb.open(path, mmap=mmap) as file:
                assert file.to_table(["id"]).num_rows == ROWS
                for read in (file.to_table, file.verify):
                    with pytest.raises(
                        nb.CorruptFileError, match="shared dictionary of column 'v'"
                    ):
                        read()


Ref = tuple[int, ...]  # node, values, then offset, size and checksum of head and body


@pytest.mark.parametrize(
    ("forge_refs", "told"),
    [
        (lambda a, b: (b, a), "does not follow"),
        (lambda a, b: (a, (99, *b[1:])), "no values"),
        (lambda a, b: ((0, *a[1:]), b), "no values"),
        (lambda a, b: (a, (b[0], 131_073, *b[2:])), "131073 values"),
        (lambda a, b: (a, (*b[:5], 1 << 60, *b[6:])), "shared dictionary"),
        (lambda a, b: (a, (*b[:6], 1 << 60, b[7])), "shared dictionary"),
    ],
    ids=["swapped", "of no column", "of the root", "too many", "outside", "too large"],
)
def test_forged_footers_are_refused(
    path: str, forge_refs: Callable[[Ref, Ref], tuple[Ref, Ref]], told: str
) -> None:
    forged_footer(path, forge_refs)
    with pytest.raises(nb.CorruptFileError, match=told):
        nb.open(path)
    assert not verify_file(path).ok


@pytest.mark.parametrize(
    "forge_refs",
    [
        lambda a, b: (a, (a[0] + 1, *a[1:])),  # of integers, where strings are
        lambda a, b: ((a[0], 3, *a[2:]), b),  # fewer values than there are codes
        lambda a, b: ((*a[:2], *a[5:8], *a[5:8]), b),  # a body for a head
    ],
    ids=["other type", "fewer values", "other head"],
)
def test_forged_dictionaries_give_errors(
    path: str, forge_refs: Callable[[Ref, Ref], tuple[Ref, Ref]]
) -> None:
    forged_footer(path, forge_refs)
    assert not verify_file(path).ok
    for mmap in (True, False):
        with nb.open(path, mmap=mmap) as file:
            for read in (
                lambda file=file: file.to_table(),
                lambda file=file: file.take([5, 600]),
                lambda file=file: file.take([5]),
            ):
                with pytest.raises(nb.CorruptFileError):
                    read()


def forged_footer(
    path: str, forge_refs: Callable[[Ref, Ref], tuple[Ref, Ref]], behind: bytes = b""
) -> None:
    """Writes a file whose footer says something else; `behind` lies before that footer."""
    table = pa.table({"id": range(ROWS), "a": CASES["int"](), "b": CASES["text"]()})
    nb.write(table, path, options=nb.WriteOptions(stripe_rows=STRIPE))
    content = Path(path).read_bytes()
    place = forge.read_postscript(content)
    begin, end = place["footer_offset"], place["footer_offset"] + place["footer_size"]
    refs = [
        (d.node, d.count, *(getattr(s, f) for s in (d.head, d.body) for f in FIELDS))
        for d in read_footer(content).shared_dictionaries
    ]
    assert [ref[0] for ref in refs] == [2, 3]
    footer = content[begin:end]
    forged = footer.replace(packed(*refs), packed(*forge_refs(refs[0], refs[1])))
    assert forged != footer
    wrong = forge.with_postscript(
        content[:begin] + behind + forged + content[end:],
        footer_checksum=checksum(forged),
        footer_offset=begin + len(behind),
    )
    Path(path).write_bytes(wrong)


def test_a_dictionary_that_is_large_when_decoded_is_refused(path: str) -> None:
    """131,072 times a string of 4 KiB, in a file of 4 KiB more than before."""
    constant = bytes([1, 0x80, 0x20]) + bytes(4096)

    def forge_text(a: Ref, b: Ref) -> tuple[Ref, Ref]:
        at = forge.read_postscript(Path(path).read_bytes())["footer_offset"]
        return a, (b[0], 131_072, at, len(constant), checksum(constant), 0, 0, 0)

    forged_footer(path, forge_text, behind=constant)
    assert not verify_file(path).ok
    for mmap in (True, False):
        with nb.open(path, mmap=mmap) as file:
            assert file.take([5], columns=["b"])["b"].to_pylist() == ["\0" * 4096]
            with pytest.raises(nb.CorruptFileError, match="at most 8388608 are possible"):
                file.verify()


def test_runs_do_as_well_behind_a_dictionary(path: str) -> None:
    """A dictionary begun by one stripe does not keep another from what it has alone."""
    n = 30_000
    many = values(500)[rng().integers(0, 500, n)]
    runs = rng(9).integers(0, 2**62, 900)[np.sort(rng(4).integers(0, 888, n // 8))].repeat(8)
    sizes = []
    for stripes in ([many], [runs], [many, runs], [runs, many]):
        table = pa.table({"v": np.concatenate(stripes)})
        summary = nb.write(table, path, options=nb.WriteOptions(stripe_rows=n))
        sizes.append(summary.size_bytes)
        assert nb.open(path).to_table().equals(table)
    assert max(sizes[2:]) <= 1.1 * (sizes[0] + sizes[1])


FIELDS = ("offset", "size", "checksum")


def packed(*refs: Ref) -> bytes:
    return b"".join(struct.pack("<2I6Q", *ref) for ref in refs)
