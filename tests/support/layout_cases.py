"""Layouts of tables with columns k, s and x, what samples of them must be, and harm to blobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import hypothesis.strategies as st
import pyarrow as pa

import nimblepy as nb
from nimblepy.table.otree import blocks

Harm = Literal["gone", "cut", "flipped"]
HARMS: st.SearchStrategy[Harm] = st.sampled_from(["gone", "cut", "flipped"])
Names = Mapping[str, str]
LayoutCase = tuple[str, Callable[[Names], Any]]

# (roles of the columns, the layout by today's names of them)
LAYOUTS: list[LayoutCase] = [
    ("k", lambda n: nb.Sorted([n["k"]])),
    ("sk", lambda n: nb.Sorted([nb.SortKey(n["s"], descending=True, nulls_first=True), n["k"]])),
    ("kx", lambda n: nb.ZOrder([n["x"], n["k"]])),
    ("ks", lambda n: nb.OTree([n["k"], n["s"]], cube_rows=16)),
    ("x", lambda n: nb.OTree(n["x"], cube_rows=40, transforms={n["x"]: "linear"})),
    (
        "ksx",
        lambda n: nb.OTree([n["s"], n["x"], n["k"]], cube_rows=20, transforms={n["s"]: "hash"}),
    ),
]


def layouts(roles: str = "ksx") -> st.SearchStrategy[LayoutCase]:
    """Layouts that need no other columns than these."""
    return st.sampled_from([case for case in LAYOUTS if set(case[0]) <= set(roles)])


def harm_blobs(table: nb.Table, harm: Harm) -> None:
    """Loses or damages every blob of cubes that a table has, and forgets what was read of them."""
    folder = Path(table.location.removeprefix("file://")) / "metadata"
    for path in folder.glob("*.puffin"):
        octets = path.read_bytes()
        if harm == "gone":
            path.unlink()
        elif harm == "cut":
            path.write_bytes(octets[: len(octets) // 2])
        else:
            half = len(octets) // 2
            path.write_bytes(octets[:half] + bytes([octets[half] ^ 8]) + octets[half + 1 :])
    blocks.forget_blobs()


def _counted(table: pa.Table) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in table.to_pylist())


def check_samples(table: nb.Table, fraction: float, seed: int, filter: str) -> None:
    """A sample has rows of the table, none twice, and the same ones each time."""
    every = _counted(table.to_table())
    assert _counted(table.sample(1)) == _counted(table.sample(1, seed=seed)) == every
    some = _counted(table.sample(fraction, seed=seed))
    assert some <= every
    assert _counted(table.sample(fraction, seed=seed)) == some
    assert _counted(table.sample(fraction / 2, seed=seed)) <= some
    passing = _counted(table.to_table(filter=filter))
    assert _counted(table.sample(fraction, seed=seed, filter=filter)) == some & passing
    assert _counted(table.sample(fraction, filter=filter)) <= passing
