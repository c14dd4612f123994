"""The cost model that decides between a scan and secondary indexes.

The unit is the cost of reading one row by its row number.
"""

from __future__ import annotations

from collections.abc import Iterable

# The cost of scanning one row. So if more than about 1.5 % of the rows match, a scan is cheaper.
SCANNED_ROW = 0.015
# The cost of decoding one entry of a sorted index.
ENTRY = 0.02


def search_cost(rows: float, *, ordered: bool) -> float:
    """Returns the cost of finding ``rows`` rows with one index, without reading the rows."""
    return rows * (ENTRY if ordered else 1.0)


def read_cost(matches: Iterable[float], num_rows: int) -> float:
    """Returns the cost of reading the rows that match in every one of several indexes.

    Assumes that the indexes' conditions are statistically independent.

    Args:
        matches: number of matching rows in each index.
        num_rows: number of rows in the file.
    """
    expected = float(max(num_rows, 1))
    for rows in matches:
        expected *= min(1.0, rows / max(num_rows, 1))
    return expected
