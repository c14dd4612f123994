"""A second generator of random claims, for types and writers that the first one does not have.

Columns are described by what their rows are, or by a lie about that. Rows come from nimblepy and
from pyiceberg, before and after an analysis, and some are deleted. The oracle reads all rows with
pyiceberg or Python only.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

D = decimal.Decimal
MAKE: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "small": (pa.int32(), lambda r: r.choice([-(2**31), -1, 0, 1, 2**31 - 1])),
    "large": (pa.int64(), lambda r: r.choice([-(2**63), 2**53 + 1, 2**63 - 1, r.randrange(9)])),
    "real": (pa.float64(), lambda r: r.choice([-0.0, 0.0, 1.5, math.inf, -math.inf, math.nan])),
    "single": (pa.float32(), lambda r: r.choice([-0.0, 0.0, 0.5, 3.25])),
    "price": (pa.decimal128(12, 2), lambda r: D(r.choice(["-0.01", "0.00", "1.10", "99.99"]))),
    "day": (pa.date32(), lambda r: dt.date(2024, 1, 1) + dt.timedelta(days=r.randrange(6))),
    "at": (pa.timestamp("us"), lambda r: dt.datetime(2024, 1, 1) + dt.timedelta(r.randrange(5))),
    "text": (pa.string(), lambda r: r.choice(["", "a", "ä" * 9, "x" * 16, "x" * 17, "x" * 40])),
    "flag": (pa.bool_(), lambda r: r.random() < 0.5),
}
SCHEMA = pa.schema([("k", pa.int64()), *((name, kind) for name, (kind, _) in MAKE.items())])


def some(random_: random.Random, keys: range, nulls: float) -> pa.Table:
    columns: dict[str, Any] = {"k": list(keys)}
    for name, (kind, make) in MAKE.items():
        values = [None if random_.random() < nulls else make(random_) for _ in keys]
        columns[name] = pa.array(values, kind)
    return pa.table(columns, SCHEMA)


def same(value: Any) -> Any:
    """A value that equals what it should: zeros of both signs are equal, as in SQL."""
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def draw(random_: random.Random, name: str, present: list[Any]) -> list[tuple[Any, bool]]:
    """Claims about a column, and whether each is true."""
    values = list(dict.fromkeys(map(same, present)))
    plain = [v for v in values if v != "nan" and not (isinstance(v, float) and math.isinf(v))]
    claims: list[tuple[Any, bool]] = []
    if plain:
        listed = plain if random_.random() < 0.5 else random_.sample(plain, len(plain) - 1)
        if listed:
            is_all = len(listed) == len(values)
            claims.append((nb.Values(listed), is_all))
        samples = random_.sample(plain, 1)
        other = MAKE[name][1](random_)
        if random_.random() < 0.5 and same(other) in plain:
            samples.append(other)
        claims.append((nb.Samples(samples), True))
    ordered = [v for v in values if v != "nan"]
    if ordered and plain and name != "flag":
        low, high = sorted(random_.choices(plain, k=2))
        claims.append((nb.Range(low, high), all(low <= v <= high for v in ordered)))
    return claims


def run(lake: nb.Catalog, seed: int) -> Counter[tuple[str, bool]]:
    """Counts (status, truth); fails if a status with a proof is wrong."""
    random_ = random.Random(seed)
    name = f"a.t{seed}"
    table = lake.create_table(name, SCHEMA, data_format="parquet")
    table.append(some(random_, range(random_.choice([1, 40])), random_.choice([0.0, 0.3])))
    answers: Counter[tuple[str, bool]] = Counter()
    for step in range(3):
        if step == 0 or random_.random() < 0.5:
            table.analyze()
        new = some(random_, range(1000 * step, 1000 * step + 9), random_.choice([0.0, 0.3, 1.0]))
        if random_.random() < 0.5:
            lake.iceberg.load_table(name).append(new)
            table.refresh()
        else:
            table.append(new)
        if random_.random() < 0.5:
            table.delete(f"k % 3 = {random_.randrange(3)}")
        rows = lake.iceberg.load_table(name).scan().to_arrow()
        assert rows.num_rows == table.num_rows
        for column in MAKE:
            values = rows[column].to_pylist()
            present = [v for v in values if v is not None]
            claims = draw(random_, column, present)
            wanted = random_.random() < 0.5
            claims.append((nb.NotNull(wanted), (len(present) < len(values)) != wanted))
            given = [claim for claim, _ in claims]
            table.describe(columns={column: [None, *given]}, allow_contradicted=True)
            truths = {claim.kind: truth for claim, truth in claims}
            for check in table.check():
                if check.claim.column != column:
                    continue
                truth = truths[check.claim.kind]
                answers[check.status, truth] += 1
                told = (seed, step, check, sorted(Counter(map(str, values)).items()))
                assert not (check.status == "contradicted" and truth), told
                assert not (check.status == "verified" and not truth), told
    return answers


@pytest.mark.model
@pytest.mark.parametrize("seed", range(3))
def test_claims_about_all_types(tmp_path: Path, seed: int) -> None:
    answers = run(nb.connect(tmp_path / "lake"), seed)
    assert answers["verified", True] > 10


@pytest.mark.slow
@pytest.mark.model
def test_many_claims_about_all_types(tmp_path: Path) -> None:
    answers: Counter[tuple[str, bool]] = Counter()
    for seed in range(100, 140):
        answers += run(nb.connect(tmp_path / str(seed)), seed)
    print(sorted(answers.items()))
    assert sum(answers.values()) > 1000
    wrong = sum(n for (_, truth), n in answers.items() if not truth)
    assert answers["contradicted", False] >= 0.95 * wrong
