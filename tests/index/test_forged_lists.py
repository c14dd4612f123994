"""Vector indexes whose bytes were changed under valid checksums."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import forge
import numpy as np
import pyarrow as pa
import pytest

import nimblepy as nb
from second_reader.bits import checksum
from second_reader.flat import root
from second_reader.reader import Container

ROWS, WIDTH, LISTS = 2100, 512, 6  # enough numbers to search by lists
X = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
ROOT = b"NPYV"


class Forger:
    """The parts of a vector index, to change and seal again. Layout: vector_index.md."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.root_at = data.rindex(ROOT) - 4
        container = Container(data)
        self.place = next(
            index.root for index in container.footer.indexes if index.root.offset == self.root_at
        )
        self.root = bytearray(data[self.root_at : self.root_at + self.place.size])
        table = root(bytes(self.root), ROOT, "VectorIndexRoot")
        self.directory_at, size, self._directory_sum = table.struct("directory", "<3Q")
        self.directory = bytearray(data[self.directory_at : self.directory_at + size])
        counts = struct.unpack_from(f"<{LISTS}I", self.directory, 8 * LISTS)
        slots = [-(-count // 32) * 32 for count in counts]
        sizes = [4 * WIDTH + n * (12 + WIDTH // 8) for n in slots]
        self.counts = counts
        self.at = [*accumulate(sizes, initial=table.number("lists_offset"))]
        self.lists = [bytearray(data[a : a + n]) for a, n in zip(self.at, sizes, strict=False)]

    def rows_of(self, number: int) -> np.ndarray[Any, Any]:
        """The file rows of a list, which may be changed."""
        return np.frombuffer(self.lists[number], "<u4", self.counts[number], 4 * WIDTH)

    def sealed(self) -> bytes:
        out = bytearray(self.data)
        for i, (at, octets) in enumerate(zip(self.at, self.lists, strict=False)):
            out[at : at + len(octets)] = octets
            struct.pack_into("<Q", self.directory, 8 * i, checksum(bytes(octets)))
        out[self.directory_at : self.directory_at + len(self.directory)] = self.directory
        _replace(self.root, self._directory_sum, checksum(bytes(self.directory)))
        out[self.root_at : self.root_at + len(self.root)] = self.root
        tail = forge.read_postscript(self.data)
        begin, size = tail["footer_offset"], tail["footer_size"]
        footer = bytearray(self.data[begin : begin + size])
        _replace(footer, self.place.checksum, checksum(bytes(self.root)))
        out[begin : begin + size] = footer
        return forge.with_postscript(bytes(out), footer_checksum=checksum(bytes(footer)))


def _replace(octets: bytearray, before: int, after: int) -> None:
    old = struct.pack("<Q", before)
    assert octets.count(old) == 1
    at = octets.index(old)
    octets[at : at + 8] = struct.pack("<Q", after)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("lists") / "a.nimble"
    column = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), WIDTH)
    index = nb.VectorIndex("v", lists=LISTS)
    nb.write(pa.table({"id": np.arange(ROWS), "v": column}), path, indexes=[index])
    return path.read_bytes()


def test_unchanged_parts_are_sealed_as_the_writer_does(good: bytes) -> None:
    assert Forger(good).sealed() == good
    with nb.open(good) as file:
        plan = file.explain(nearest=X[0], k=10)
        assert (plan["files by lists"], plan["lists"]) == (1, LISTS)


@pytest.mark.sanitizer
@pytest.mark.parametrize(
    ("at", "message"),
    [(1, "bits 9"), (2, "rotation 9"), (3, "row numbers of 9 bytes")],
)
def test_an_unknown_index_is_not_searched_but_the_file_is(
    good: bytes, at: int, message: str
) -> None:
    forger = Forger(good)
    begin = forger.root.index(bytes([1, 1, 1, 4]))  # metric, bits, rotation, row_width
    forger.root[begin + at] = 9
    expected = np.argsort(((X - X[5]) ** 2).sum(axis=1), kind="stable")[:4].tolist()
    with nb.open(forger.sealed()) as file:
        with pytest.raises((nb.NimbleError, NotImplementedError), match=message):
            file.nearest(X[5], k=4)
        for whole in ({"exact": True}, {"recall": 1}, {"exact": True, "metric": "l2"}):
            assert file.nearest(X[5], k=4, **whole)["id"].to_pylist() == expected  # type: ignore[arg-type]
        assert file.to_table()["id"].to_pylist() == list(range(ROWS))
        assert [i.kind for i in file.indexes] == ["vector"]


def _beyond(forger: Forger) -> None:
    forger.rows_of(2)[-1] = ROWS


def _far_beyond(forger: Forger) -> None:
    forger.rows_of(0)[-1] = 2**32 - 1


def _swapped(forger: Forger) -> None:
    rows = forger.rows_of(1)
    rows[3], rows[4] = rows[4], rows[3]


def _twice(forger: Forger) -> None:
    rows = forger.rows_of(3)
    rows[1] = rows[0]


@pytest.mark.sanitizer
@pytest.mark.parametrize("change", [_beyond, _far_beyond, _swapped, _twice])
def test_lists_with_wrong_rows_are_corrupt(good: bytes, change: Callable[[Forger], None]) -> None:
    forger = Forger(good)
    change(forger)
    with nb.open(forger.sealed()) as file:
        with pytest.raises(nb.CorruptFileError, match="row"):
            file.nearest(X[:50], k=50, recall=0.95)
        with pytest.raises(nb.CorruptFileError):
            file.verify()
        assert file.nearest(X[5], k=1, exact=True)["id"].to_pylist() == [5]


@pytest.mark.sanitizer
def test_a_row_in_two_lists_is_returned_at_most_once(good: bytes) -> None:
    forger = Forger(good)
    row = int(forger.rows_of(4)[0])
    rows = forger.rows_of(5)
    at = int(np.searchsorted(rows, row))  # the row before or after it is replaced
    rows[min(at, len(rows) - 1)] = row
    with nb.open(forger.sealed()) as file:
        with pytest.raises(nb.CorruptFileError):
            file.verify()
        try:
            ids = file.nearest(X[row], k=50, columns=["id"], recall=0.95)["id"].to_pylist()
        except nb.CorruptFileError:
            return
        assert len({*ids}) == len(ids)
