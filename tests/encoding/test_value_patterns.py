"""Values that follow a pattern, and break it: what encodings are chosen for, and where they trip.

Each pattern makes a run of like values; breakers (empty, extreme, almost fitting) are strewn into
it, with and without nulls. Whole columns, single rows and slices must be exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from answers import pick
from exact import assert_same_table
from hypothesis import given
from hypothesis import strategies as st

import nimblepy as nb

pytestmark = pytest.mark.model

Store = Callable[..., Any]
Rng = np.random.Generator

TEXTS: dict[str, Callable[[int, Rng], str]] = {
    "template": lambda i, r: f"https://example.org/{r.integers(0, 50)}/item",
    "padded number": lambda i, r: f"Customer#{r.integers(0, 10**9):09}",
    "rising number": lambda i, r: f"row {i}",
    "number only": lambda i, r: str(r.integers(0, 10**6)),
    "huge number": lambda i, r: f"id-{10**19 + int(r.integers(0, 10**9))}",
    "hex": lambda i, r: r.bytes(8).hex(),
    "uuid": lambda i, r: "-".join(r.bytes(n).hex() for n in (4, 2, 2, 2, 6)),
    "date": lambda i, r: f"2024-{r.integers(1, 13):02}-{r.integers(1, 29):02}",
    "few values": lambda i, r: ["RAIL", "AIR", "SHIP"][r.integers(3)],
    "words": lambda i, r: " ".join(["furious", "deposit", "sleep"][k] for k in r.integers(0, 3, 5)),
    "one long prefix": lambda i, r: "p" * 300 + str(r.integers(0, 9)),
    "one value": lambda i, r: "same",
    "two numbers": lambda i, r: f"{r.integers(0, 300)}.{r.integers(0, 300)}",
    "signed": lambda i, r: f"{r.integers(-50, 50):+}",
}
TEXT_BREAKERS = [
    "", "", "",  # the most common of all "0", "00", "-0", "+", "https://example.org//item", "https://example.org/07/item",
    "https://example.org/7/item ", "Customer#1", "Customer#-00000001", "row 007", "row ", "𝄞", "\0",
    "18446744073709551616", "id-99999999999999999999999", "2024-1-1", "x" * 5_000,
]  # fmt: skip
INTS: dict[str, Callable[[int, Rng], int]] = {
    "constant": lambda i, r: 7,
    "rising": lambda i, r: 3 * i + 10**12,
    "rising unevenly": lambda i, r: 100 * i + int(r.integers(0, 90)),
    "falling": lambda i, r: -i,
    "small": lambda i, r: int(r.integers(0, 4)),
    "runs": lambda i, r: i // 37,
    "mostly zero": lambda i, r: 0 if r.random() < 0.95 else int(r.integers(0, 2**40)),
    "few values": lambda i, r: [5, 2**60, -(2**60)][r.integers(3)],
    "wide": lambda i, r: int(r.integers(-(2**63), 2**63 - 1)),
    "multiples": lambda i, r: 86_400_000 * int(r.integers(0, 999)),
}
INT_BREAKERS = [0, -1, 2**63 - 1, -(2**63), 2**62, 1]
FLOATS: dict[str, Callable[[int, Rng], float]] = {
    "prices": lambda i, r: round(float(r.random()) * 1e5, 2),
    "integers": lambda i, r: float(r.integers(0, 1_000)),
    "real": lambda i, r: float(r.standard_normal()),
    "constant": lambda i, r: 0.1,
    "tiny": lambda i, r: float(r.random()) * 1e-300,
    "many digits": lambda i, r: round(float(r.random()), 14),
    "runs": lambda i, r: (i // 50) / 10,
}
FLOAT_BREAKERS = [-0.0, float("nan"), float("inf"), 5e-324, 1e308, 0.1 + 0.2, 1 / 3, -1e-5]
KINDS: dict[str, tuple[pa.DataType, dict[str, Callable[[int, Rng], Any]], list[Any]]] = {
    "text": (pa.utf8(), TEXTS, TEXT_BREAKERS),
    "int": (pa.int64(), INTS, INT_BREAKERS),
    "float": (pa.float64(), FLOATS, FLOAT_BREAKERS),
}
CASES = [(kind, pattern) for kind, (_, patterns, _) in KINDS.items() for pattern in patterns]


def make(kind: str, pattern: str, n: int, rng: Rng, breakers: float, nulls: float) -> pa.Array:
    type_, patterns, unlike = KINDS[kind]
    values = [
        unlike[rng.integers(len(unlike))] if rng.random() < breakers else patterns[pattern](i, rng)
        for i in range(n)
    ]
    return pa.array([None if rng.random() < nulls else v for v in values], type_)


def check(file: Any, table: pa.Table, rng: Rng) -> None:
    assert_same_table(file.to_table(), table)
    n = table.num_rows
    rows = [int(row) for row in rng.integers(0, n, 12)] if n else []
    assert_same_table(file.take(rows), pick(table, rows))
    begin, end = sorted(int(row) for row in rng.integers(0, n + 1, 2))
    got = file.scan(row_range=(begin, end), batch_rows=64).to_table()
    assert_same_table(got, table.slice(begin, end - begin))


@pytest.mark.parametrize("compression", ["fast", "balanced", "compact"])
@pytest.mark.parametrize(("kind", "pattern"), CASES, ids=[f"{k}-{p}" for k, p in CASES])
def test_pattern_with_breakers_and_nulls_is_exact(
    store: Store, kind: str, pattern: str, compression: str
) -> None:
    rng = np.random.default_rng(31)
    shares = [(0.0, 0.0), (0.02, 0.0), (0.0, 0.1), (0.02, 0.1), (0.3, 0.3)]
    columns = {f"{b} {n}": make(kind, pattern, 1_500, rng, b, n) for b, n in shares}
    table = pa.table(columns)
    for stripe_rows in (1_500, 11):
        options = nb.WriteOptions(compression=compression, stripe_rows=stripe_rows)
        part = table.slice(0, 1_500 if stripe_rows > 11 else 200)
        check(store(part, options=options), part, rng)


@given(
    n=st.integers(0, 40),
    seed=st.integers(0, 2**32 - 1),
    breakers=st.sampled_from([0.0, 0.1, 0.5]),
    nulls=st.sampled_from([0.0, 0.3, 0.8]),
    compression=st.sampled_from(["fast", "balanced", "compact"]),
)
def test_pattern_in_a_handful_of_rows_is_exact(
    store: Store, n: int, seed: int, breakers: float, nulls: float, compression: str
) -> None:
    rng = np.random.default_rng(seed)
    columns = {f"{k} {p}": make(k, p, n, rng, breakers, nulls) for k, p in CASES}
    table = pa.table(columns)
    options = nb.WriteOptions(compression=compression, stripe_rows=int(rng.integers(1, 50)))
    check(store(table, options=options), table, rng)


def test_pattern_of_text_with_empty_strings_and_nulls_keeps_the_empty_strings(store: Store) -> None:
    # beside nulls, an empty string came back as the text of another row
    values = ["https://example.org/12/item", "", "", None, "https://example.org/13/item", None]
    table = pa.table({"v": values})
    assert_same_table(store(table).to_table(), table)
