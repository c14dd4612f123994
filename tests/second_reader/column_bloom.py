"""Bloom filters of columns by docs/format/column_bloom.md, against the values of every stripe."""

from __future__ import annotations

from nimblepy.errors import CorruptFileError
from second_reader.chunks import BloomFilter
from second_reader.columns import StripeData
from second_reader.flat import root
from second_reader.keys import stripe_keys
from second_reader.metadata import KeyColumn, Section
from second_reader.reader import Container
from second_reader.schema import Node

SECTION = "nimble.column_bloom"


class ColumnBloom:
    """The filters of one column, stripe by stripe."""

    def __init__(
        self, file: Container, node: int, end_rows: list[int], filters: list[Section]
    ) -> None:
        if len(end_rows) != len(filters):
            raise CorruptFileError(f"{SECTION}: {len(filters)} filters, {len(end_rows)} stripes")
        self._file = file
        self._end_rows = end_rows
        self._filters = filters
        self._done = 0
        path = _path_to(file.plan.nodes[0], node)
        if path is None:
            raise CorruptFileError(f"{SECTION}: node {node} is not reached through structs")
        self._column = KeyColumn(path, descending=False, nulls_first=False)

    def check_stripe(self, row: int, data: StripeData) -> None:
        """Checks that every value of a stripe passes the stripe's filter."""
        stripe = self._done
        self._done += 1
        if stripe >= len(self._filters) or self._end_rows[stripe] != row + data.rows:
            raise CorruptFileError(f"{SECTION}: stripe {stripe} does not end at {row + data.rows}")
        bits = BloomFilter(self._file.section(self._filters[stripe], f"{SECTION} {stripe}"))
        keys = stripe_keys(data, [self._column], self._file.dictionary)
        missing = [key for key in set(keys) if not bits.might_contain(key)]
        if missing:
            raise CorruptFileError(f"{SECTION}: stripe {stripe} lacks value {missing[0].hex()}")

    def check_done(self, rows: int) -> None:
        if self._done != len(self._filters) or (rows and self._end_rows[-1] != rows):
            raise CorruptFileError(f"{SECTION}: {len(self._filters)} filters, {self._done} stripes")


def _path_to(node: Node, wanted: int) -> list[int] | None:
    """Child numbers from a struct down to a node."""
    for i, child in enumerate(node.children if node.layout == "struct" else []):
        if child.id == wanted:
            return [i]
        below = _path_to(child, wanted)
        if below is not None:
            return [i, *below]
    return None


def read_column_blooms(raw: bytes, file: Container) -> list[ColumnBloom]:
    t = root(raw, b"NPYB", "ColumnBlooms")
    return [
        ColumnBloom(
            file,
            c.number("node", "<I"),
            c.numbers("end_rows").tolist(),
            [Section(*s) for s in c.structs("filters", "<QQQ")],
        )
        for c in t.tables("columns", "ColumnBloom")
    ]
