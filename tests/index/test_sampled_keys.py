"""Long keys are sampled: the index holds every n-th one, the columns hold the others, and all
answers are as if the index held them all.
"""

from __future__ import annotations

import uuid
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import forge
import pyarrow as pa
import pytest

import nimblepy as nb
from second_reader import verify_file

pytestmark = pytest.mark.model

ROWS = 3_000


def uuid_table(seed: int = 1) -> pa.Table:
    random = Random(seed)
    ids = sorted(str(uuid.UUID(int=random.getrandbits(128))) for _ in range(ROWS))
    return pa.table({"id": ids, "value": range(ROWS)})


def event_table(seed: int = 2) -> pa.Table:
    """Few users, of whom one has most rows; some keys repeat, some are null."""
    random = Random(seed)
    rows = []
    for _ in range(ROWS):
        user = None if random.random() < 0.05 else f"user-{random.randrange(40) ** 2 // 40:04d}"
        rows.append((user, random.choice([None, *range(500)])))
    rows.sort(key=lambda r: (r[0] is None, r[0] or "", r[1] is not None, -(r[1] or 0)))
    users = pa.array([r[0] for r in rows]).dictionary_encode()
    seconds = pa.array([None if r[1] is None else r[1] * 7_000_003 for r in rows])
    nested = pa.StructArray.from_arrays([seconds], ["seconds"])
    return pa.table({"user": users, "at": nested, "row": range(ROWS)})


def written(path: str, table: pa.Table, keys: Any, **options: Any) -> nb.FileSummary:
    options = {"stripe_rows": 1_000, "group_rows": 2_000, "key_chunk_rows": 700, **options}
    return nb.write(
        table, path, cluster_by=keys, presorted=True, options=nb.WriteOptions(**options)
    )


def features(path: str) -> int:
    """Whether the index holds samples: the first bit that a reader must know."""
    return forge.read_postscript(Path(path).read_bytes())["required_features"] & 1


@pytest.mark.parametrize(("compression", "step"), [("fast", 1), ("balanced", 16), ("compact", 64)])
def test_index_of_long_keys_holds_every_nth(path: str, compression: str, step: int) -> None:
    summary = written(path, uuid_table(), "id", compression=compression)
    assert features(path) == (step > 1)
    # a key is 38 bytes, in a chunk often less
    assert summary.index_bytes / ROWS < 38 / step + 1.5
    assert verify_file(path).ok
    with nb.open(path) as file:
        file.verify()


def test_index_of_numbers_holds_all(path: str) -> None:
    written(path, pa.table({"k": range(ROWS)}), "k")
    assert features(path) == 0


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("compression", ["balanced", "compact"])
def test_lookup_of_sampled_uuids_finds_every_row(path: str, compression: str, mmap: bool) -> None:
    table = uuid_table()
    written(path, table, "id", compression=compression)
    ids = table["id"].to_pylist()
    absent = [i[:-1] for i in ids[::7]] + [i + "0" for i in ids[::7]] + ["", "g"]
    with nb.open(path, mmap=mmap) as file:
        for row in range(0, ROWS, 13):
            assert file.get(ids[row]) == {"id": ids[row], "value": row}
        assert all(file.get(key) is None for key in absent[::5])
        shuffled = Random(3).sample(ids, ROWS) + absent
        found = file.lookup(pa.table({"id": shuffled}))
        assert sorted(found["value"].to_pylist()) == list(range(ROWS))
        for begin, end in [(0, 5), (15, 17), (690, 1_410), (2_000, ROWS - 1)]:
            got = file.range(ids[begin], ids[end])
            assert got["value"].to_pylist() == list(range(begin, end))


def test_prefixes_of_sampled_composite_keys_are_exact(path: str) -> None:
    table = event_table()
    keys = [nb.SortKey("user"), nb.SortKey("at.seconds", descending=True, nulls_first=True)]
    written(path, table, keys)
    assert features(path) == 1
    assert verify_file(path).ok
    rows = list(zip(table["user"].to_pylist(), table["at"].to_pylist(), strict=True))
    with nb.open(path) as file:
        file.verify()
        for user in [*{r[0] for r in rows if r[0]}, "user-00", "zzz"]:
            want = [i for i, r in enumerate(rows) if r[0] == user]
            got = file.prefix(user)
            assert got["row"].to_pylist() == want
        for user, at in rows[::37]:
            if user is None or at["seconds"] is None:
                continue
            want = [i for i, r in enumerate(rows) if r == (user, at)]
            got = file.lookup(pa.table({"user": [user], "at.seconds": [at["seconds"]]}))
            assert got["row"].to_pylist() == want


def test_sampled_chunks_without_the_feature_bit_are_corrupt(path: str) -> None:
    table = uuid_table()
    written(path, table, "id")
    forged = forge.with_postscript(Path(path).read_bytes(), required_features=0)
    with nb.open(forged) as file, pytest.raises(nb.CorruptFileError):
        file.get(table["id"][5].as_py())
    assert not verify_file(forged).ok


def all_kinds_table() -> pa.Table:
    """Key columns that are decoded one value at a time, and such that are not."""
    random = Random(4)
    n = 1_200
    some = [None, *(f"{v % 7}\0{random.getrandbits(60):x}" for v in range(700))]
    texts = random.choices(some, k=n)
    return pa.table(
        {
            "text": texts,
            "code": pa.array([f"c{v % 11}" for v in range(n)]).dictionary_encode(),
            "raw": pa.array([random.randbytes(9) for _ in range(n)], pa.binary(9)),
            "money": pa.array([Decimal(random.getrandbits(90)) for _ in range(n)]),
            "small": pa.array([random.randrange(-3, 3) for _ in range(n)], pa.int8()),
            "big": pa.array([random.choice([None, random.getrandbits(64)]) for _ in range(n)],
                            pa.uint64()),
            "ratio": pa.array([random.choice([None, -0.0, random.random()]) for _ in range(n)]),
            "flag": [random.choice([None, True, False]) for _ in range(n)],
            "day": pa.array(random.choices(range(9), k=n), pa.date32()),
            "row": range(n),
        }
    )  # fmt: skip


KEYS: list[list[Any]] = [
    ["text"],
    ["raw"],
    ["text", "small", nb.SortKey("big", descending=True)],
    ["code", nb.SortKey("money", nulls_first=True), "day"],
    [nb.SortKey("flag", nulls_first=True), nb.SortKey("ratio", descending=True), "big"],
    [nb.SortKey("text", descending=True, nulls_first=True), "raw"],
    ["day", "money"],
]


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_sampled_index_answers_like_one_of_all_keys(tmp_path: Path, keys: Any, mmap: bool) -> None:
    """The same rows, written with and without samples."""
    table = all_kinds_table()
    paths = [tmp_path / "sampled", tmp_path / "all"]
    for path, compression in zip(paths, ("balanced", "fast"), strict=True):
        options = nb.WriteOptions(
            stripe_rows=500, group_rows=700, key_chunk_rows=130, compression=compression
        )
        nb.write(table, path, cluster_by=keys, options=options)
    names = [k if isinstance(k, str) else k.column for k in keys]
    with nb.open(paths[0], mmap=mmap) as sampled, nb.open(paths[1], mmap=mmap) as full:
        assert features(str(paths[0])) == 1
        assert features(str(paths[1])) == 0
        sampled.verify()
        rows = full.to_table()
        assert sampled.to_table().equals(rows)
        for width in range(1, len(names) + 1):
            probes = rows.select(names[:width]).take(Random(width).sample(range(1_200), 500))
            shifted = pa.table(
                {n: pa.concat_arrays(probes[n].combine_chunks() for _ in "1").take(
                    pa.array([(i + j) % 500 for i in range(500)]))
                 for j, n in enumerate(names[:width])}
            )  # fmt: skip
            for asked in (probes, shifted):
                on = names[:width]
                want = full.row_ranges(asked, on=on, null_equals=True)
                assert sampled.row_ranges(asked, on=on, null_equals=True).equals(want)
                assert sampled.count(asked, on=on).equals(full.count(asked, on=on))
                got = sampled.lookup(asked, on=on, columns=["row"])
                assert got.equals(full.lookup(asked, on=on, columns=["row"]))
        for row in rows.select(names).take([0, 1, 399, 400, 640, 1_199]).to_pylist():
            key = tuple(row.values())
            assert sampled.get(key) == full.get(key)
            for inclusive in ("[)", "(]"):
                both = [f.range(key[:1], key, inclusive=inclusive) for f in (sampled, full)]
                assert both[0].equals(both[1])


def test_index_added_to_a_sampled_file_keeps_its_samples(path: str, tmp_path: Path) -> None:
    table = uuid_table()
    written(path, table, "id")
    nb.add_index(path, nb.SortedIndex("value"))
    assert features(path) == 1
    assert verify_file(path).ok
    with nb.open(path) as file:
        file.verify()
        row = file.get(table["id"][77].as_py())
        assert row is not None
        assert row["value"] == 77
        assert file.get(77, on="value") == row
