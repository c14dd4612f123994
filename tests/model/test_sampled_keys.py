"""Long keys are sampled: the index holds every n-th one, the columns hold the others, and all
answers are as if the index held them all.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import forge
import nimblepy as nb
from nimblepy.verify import verify_file

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
    return forge.read_postscript(Path(path).read_bytes())["required_features"]


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
            got = file.prefix(user) if hasattr(file, "prefix") else file.lookup([user])
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
