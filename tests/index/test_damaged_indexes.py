"""Damage in or around secondary indexes gives an error of our tree or exactly the right rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import small_file
from exact import assert_same_table

import nimblepy as nb

pytestmark = [pytest.mark.damage, pytest.mark.sanitizer]

TABLE = small_file.TABLE
TEXTS = TABLE.column("s").to_pylist()
ROWS_OF_TEXT_1 = [i for i, text in enumerate(TEXTS) if text == "text 1"]
BY_F = sorted(
    range(small_file.N),
    key=lambda i: (TABLE["f"][i].as_py() is None, -(TABLE["f"][i].as_py() or 0), i),
)


def _rows(file: nb.File, keys: list[str], on: str) -> list[int]:
    source = file._current
    return list(source.find(source.keys_request(keys, on)).rows.tolist())


READS: dict[str, Callable[[Any], Any]] = {
    "lookup": lambda f: f._current.find(
        f._current.keys_request(["text 1", "none"], "s")
    ).rows.tolist(),
    "count": lambda f: f.count(["text 1"], on="s").to_pylist(),
    "range": lambda f: f.range(on="f", columns=["k"]).column(0).to_pylist(),
    "last": lambda f: f.range(on="f", columns=["k"], limit=3, reverse=True).column(0).to_pylist(),
    "filter": lambda f: f.to_table(["k"], filter="s = 'text 1' AND f >= 0").column(0).to_pylist(),
    "prefix": lambda f: f.prefix("text 1", on="s", columns=["k"]).column(0).to_pylist(),
    "get": lambda f: f.get("text 1", ["k"], on="s"),
}
WANT: dict[str, Any] = {
    "lookup": ROWS_OF_TEXT_1,
    "count": [len(ROWS_OF_TEXT_1)],
    "range": [i // 2 for i in BY_F],
    "last": [i // 2 for i in BY_F[::-1][:3]],
    "filter": [i // 2 for i in ROWS_OF_TEXT_1 if TABLE["f"][i].as_py() is not None],
    "prefix": [i // 2 for i in ROWS_OF_TEXT_1],
    "get": {"k": ROWS_OF_TEXT_1[0] // 2},
}


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("indexed") / "small.nimble"
    options = nb.WriteOptions(key_chunk_rows=5, stripe_rows=12, group_rows=12, zone_rows=6)
    indexes = [
        nb.HashIndex("s"),
        nb.SortedIndex(["s", "k"]),
        nb.SortedIndex(nb.SortKey("f", descending=True)),
    ]
    nb.write(TABLE, path, cluster_by="k", presorted=True, indexes=indexes, options=options)
    return path.read_bytes()


def _noticed(data: bytes) -> bool:
    """Whether anything failed; fails on another error or a wrong answer."""
    try:
        file = nb.open(data)
    except nb.NimbleError:
        return True
    noticed = False
    for name, read in READS.items():
        try:
            got = read(file)
        except nb.NimbleError:
            noticed = True
            continue
        assert got == WANT[name], name
    try:
        assert_same_table(file.to_table(), TABLE)
        file.verify()
    except nb.NimbleError:
        noticed = True
    return noticed


def test_undamaged_file_answers(content: bytes) -> None:
    assert not _noticed(content)


@pytest.mark.parametrize("turn", range(4))
def test_bit_flip_anywhere_is_an_error_or_the_right_rows(content: bytes, turn: int) -> None:
    silent = []
    for at in range(turn, len(content), 4 * small_file.EVERY):
        flipped = bytearray(content)
        flipped[at] ^= 1 << ((at * 5 + turn) % 8)
        if not _noticed(bytes(flipped)) and content[at] != 0:
            silent.append(at)
    assert silent == []


def test_truncation_anywhere_is_an_error(content: bytes) -> None:
    for size in range(0, len(content), 37):
        assert _noticed(content[:size])


def test_random_damage_is_an_error_or_the_right_rows(content: bytes) -> None:
    rng = np.random.default_rng(7)
    for _ in range(500 // small_file.EVERY):
        damaged = bytearray(content)
        begin, size = int(rng.integers(0, len(content))), int(rng.integers(1, 60))
        damaged[begin : begin + size] = rng.bytes(len(damaged[begin : begin + size]))
        _noticed(bytes(damaged))
