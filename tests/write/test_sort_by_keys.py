"""Files whose columns are all in the key are sorted by their keys alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb


def rows(rng: random.Random, count: int, text: Any) -> list[tuple[str | None, int | None]]:
    return [
        (
            None if rng.random() < 0.02 else text(),
            None if rng.random() < 0.02 else rng.choice([-(2**63), -1, 0, 7, 2**63 - 1, count]),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("budget", [1 << 20, 3 << 20, 512 << 20])
@pytest.mark.parametrize("kind", ["uuid", "long prefix", "few", "any"])
def test_sorted_like_python_sorts(tmp_path: Path, budget: int, kind: str) -> None:
    rng = random.Random(38)
    make = {
        "uuid": lambda: f"{rng.getrandbits(64):016x}-{rng.getrandbits(64):016x}",
        "long prefix": lambda: "x" * 100 + str(rng.getrandbits(30)),
        "few": lambda: rng.choice(["", "a", "a\0", "a\1", "b" * 300]),
        "any": lambda: "".join(rng.choices("\0\1\2aé\U0001f600", k=rng.randrange(60))),
    }
    data = rows(rng, 40_000, make[kind])
    schema = pa.schema({"s": pa.string(), "n": pa.int64()})
    path = tmp_path / "t.nimble"
    options = nb.WriteOptions(sort_memory_bytes=budget)
    with nb.Writer(path, schema, cluster_by=["s", "n"], options=options) as writer:
        for begin in range(0, len(data), 7000):
            texts, numbers = zip(*data[begin : begin + 7000], strict=True)
            writer.write(pa.table([pa.array(texts), pa.array(numbers)], schema=schema))

    def key(row: tuple[str | None, int | None]) -> Any:  # nulls last
        text, number = row
        return (text is None, (text or "").encode(), number is None, number or 0)

    with nb.open(path, verify="full") as file:
        found = file.to_table()
    assert list(zip(found["s"].to_pylist(), found["n"].to_pylist(), strict=True)) == sorted(
        data, key=key
    )
