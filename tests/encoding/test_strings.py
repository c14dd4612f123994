"""Strings that repeat, begin like their neighbours, are mostly null, or are text: whatever the file
stores of them, every way to read it gives them back.
"""

from __future__ import annotations

from functools import partial
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import nimblepy as nb
from second_reader import verify_file

pytestmark = pytest.mark.model

ROWS = 6_000
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


def agents() -> list[str | None]:
    random = Random(1)
    distinct = [
        f"Mozilla/5.0 (X11; {random.choice(WORDS)} {i}) Gecko/{i * 7} Firefox/{i % 90}.0"
        for i in range(900)
    ]
    return [random.choice(distinct) for _ in range(ROWS)]


def paths() -> list[str | None]:
    random = Random(2)
    return sorted(
        "/usr/share/" + "/".join(random.choice(WORDS) + random.choice(WORDS) for _ in range(3))
        for _ in range(ROWS)
    )


def sparse() -> list[str | None]:
    random = Random(3)
    return [
        None if random.random() < 0.9 else random.choice(["", f"note {random.randrange(10**6)}"])
        for _ in range(ROWS)
    ]


def lines() -> list[str | None]:
    """Of a log: a few shapes with numbers, some of them with zeros in front; one in 50 is null."""
    random = Random(6)
    return [
        None
        if row % 50 == 49
        else f"{row // 3600:02d}:{row // 60 % 60:02d} [{random.choice(['INFO', 'WARN'])}] "
        f"{random.choice(WORDS)} took {random.randrange(10**5)} of 60000 ms, "
        f"{random.random():.3f} of id 5f3a9c01{random.choice(['', ' again'])}"
        for row in range(ROWS)
    ]


def prose() -> list[str | None]:
    random = Random(7)
    return [
        " ".join(random.choice(WORDS) + random.choice(WORDS) for _ in range(random.randrange(3, 9)))
        for _ in range(ROWS)
    ]


def text() -> list[str | None]:
    random = Random(4)
    return [
        f'{{"id": {random.randrange(10**9)}, "tags": ["{random.choice(WORDS)}", '
        f'"{random.choice(WORDS)}"], "score": {random.random():.3f}}}'
        for _ in range(ROWS)
    ]


def cyrillic() -> list[str | None]:
    """Of characters of two bytes, which symbols of FSST hold four of at most."""
    random = Random(8)
    letters = "оеаинтсрвлкмдпу"
    words = ["".join(random.choice(letters) for _ in range(2 + i % 7)) for i in range(300)]
    return [
        " ".join(words[int(299 * random.random() ** 3)] for _ in range(random.randrange(6, 16)))
        for _ in range(ROWS)
    ]


def labels(longest: int) -> list[str | None]:
    """Few distinct ones, of all lengths up to one at which they are copied in another way."""
    random = Random(longest)
    distinct = ["", *("".join(random.choices("xyz?", k=1 + i % longest)) for i in range(90))]
    distinct.append("?" * longest)
    return [random.choice(distinct) for _ in range(ROWS)]


def codes() -> list[str | None]:
    """Few distinct strings of one shape."""
    random = Random(9)
    distinct = [f"{random.randrange(16**12):012x}" for _ in range(500)]
    return [random.choice(distinct) for _ in range(ROWS)]


CASES = {
    "cyrillic": (cyrillic, "balanced", "shared phrases"),
    **{
        f"labels of {longest}": (partial(labels, longest), "balanced", f"{prefix}dictionary n=")
        for prefix, sizes in (("", (16, 17, 32, 33)), ("shared ", (64, 65)))
        for longest in sizes
    },
    "codes": (codes, "balanced", "shared dictionary n=500"),
    "agents": (agents, "balanced", "shared dictionary n="),
    "paths": (paths, "balanced", "front coded"),
    "sparse": (sparse, "balanced", "present"),
    "text": (text, "compact", "text ("),
    "lines": (lines, "compact", "text ("),
    "prose": (prose, "compact", "shared phrases"),
}


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_strings_come_back_every_way(path: str, name: str, mmap: bool) -> None:
    make, compression, encoding = CASES[name]
    table = pa.table({"s": pa.array(make(), pa.string()), "row": range(ROWS)})
    options = nb.WriteOptions(compression=compression)
    summary = nb.write(table, path, options=options)
    assert summary.columns[0].encoding.startswith(encoding)
    report = verify_file(path)
    assert report.ok, str(report)
    wanted = table["s"].to_pylist()
    with nb.open(path, mmap=mmap) as file:
        assert file.to_table()["s"].to_pylist() == wanted
        random = Random(5)
        rows = [random.randrange(ROWS) for _ in range(300)]
        assert file.take(rows)["s"].to_pylist() == [wanted[r] for r in rows]
        for row in rows[:20]:
            assert file.take([row])["s"].to_pylist() == [wanted[row]]
        some = sorted(w for w in wanted if w is not None)[len(wanted) // 30]
        for test in (pc.field("s") == some, pc.field("s") < some, pc.field("s") != ""):
            assert file.scan(filter=test).to_table().equals(table.filter(test)), str(test)
