"""Random claims, true and false ones, over random histories, against a slow oracle that reads all.

A claim that is contradicted must be false, and one that is verified must be true.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import nimblepy as nb

SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "code": pa.string(),
        "number": pa.int32(),
        "share": pa.float64(),
        "parent": pa.int64(),
    }
)
CODES = "ABCDEFGH"
Rows = list[dict[str, Any]]


def some_rows(choices: random.Random, keys: list[int], codes: str, parents: int) -> pa.Table:
    nulls = choices.choice([0.0, 0.0, 0.2])

    def maybe(value: Any) -> Any:
        return None if choices.random() < nulls else value

    return pa.Table.from_pylist(
        [
            {
                "k": key,
                "code": maybe(choices.choice(codes)),
                "number": maybe(choices.randrange(100)),
                "share": maybe(choices.choice([float("nan"), 0.0, choices.random()])),
                "parent": choices.randrange(parents),
            }
            for key in keys
        ],
        SCHEMA,
    )


def random_columns(choices: random.Random) -> dict[str, Any]:
    low, high = sorted(choices.choices([-1, 0, 5, 50, 99, 120], k=2))
    codes = choices.sample(CODES, choices.randrange(1, len(CODES) + 1))
    orphans = choices.choice([0.0, 0.0, 0.1, 0.5])
    return {
        "code": [
            nb.Values(codes),
            nb.Samples(choices.sample(CODES, 2)),
            nb.NotNull(choices.random() < 0.8),
        ],
        "number": [nb.Range(low, high), nb.Values(range(choices.choice([50, 100])))],
        "share": [nb.Range(0.0, choices.choice([0.5, 1.0])), nb.NotNull()],
        "parent": nb.References("a.parent", orphans=orphans),
        "k": nb.Range(0, choices.choice([100, 10_000])),
    }


def holds(claim: nb.Claim, rows: Rows, parents: set[int]) -> bool:
    """The slow oracle."""
    values = [row[claim.column] for row in rows] if claim.column else []
    present = [value for value in values if value is not None and value == value]
    stated = claim.value
    match claim.kind:
        case "values":
            return set(present) <= set(stated)
        case "samples":
            return set(stated) <= set(present)
        case "range":
            return all(stated[0] <= value <= stated[1] for value in present)
        case "not_null":
            return (None in values) != stated
        case "references":
            keys = set(present)
            return len(keys - parents) <= stated["orphans"] * len(keys)
        case "unique":
            counts = Counter(tuple(row[name] for name in stated) for row in rows)
            return all(n == 1 for key, n in counts.items() if None not in key)
        case "rows":
            return bool(stated / 1.5 <= len(rows) <= stated * 1.5)
        case "rule":
            broken = {"number >= 5": lambda r: r["number"] is not None and r["number"] < 5}
            broken["number + k >= 0"] = lambda r: False
            return not any(broken[stated](row) for row in rows)
    return True


def run(
    lake: nb.Catalog, seed: int, *, steps: int, deep: bool = False
) -> Counter[tuple[str, bool]]:
    """Counts (status, what the oracle says) of all checks."""
    choices = random.Random(seed)
    most_parents = choices.choice([20, 400])
    parents = pa.table({"id": range(most_parents)})
    parent = lake.create_table("a.parent", parents, primary_key="id")
    parent.analyze()
    data_format: Any = choices.choice(["nimble", "parquet"])
    table = lake.create_table("a.child", SCHEMA, primary_key="k", data_format=data_format)
    first = list(range(choices.choice([30, 600])))
    table.append(some_rows(choices, first, CODES[:4], most_parents))
    table.analyze()
    snapshots = [table.snapshot]
    answers: Counter[tuple[str, bool]] = Counter()
    for step in range(steps):
        table.describe(
            columns=random_columns(choices),
            unique=choices.choice([["k"], ["k", "code"], ["code"], ["parent", "number"]]),
            rows=choices.choice([30, 300, 900]),
            rules=["number >= 5", "number + k >= 0"],
            allow_contradicted=True,
        )
        keys = choices.sample(range(1000), 20)
        codes = choices.choice([CODES[:4], CODES[:5]])
        match choices.randrange(9):
            case 0 | 1:
                new = list(range(2000 + 50 * step, 2030 + 50 * step))
                table.append(some_rows(choices, new, codes, most_parents))
            case 2 | 3:
                table.upsert(some_rows(choices, keys, codes, most_parents + choices.choice([0, 9])))
            case 4:
                table.delete(choices.choice(["k % 3 = 1", "code = 'D'", "number > 90"]))
            case 5:
                table.compact(where_needed=False)
            case 6:
                with table.alter() as a:
                    a.add_column(f"extra{step}", pa.int64()).move_column("share", first=True)
            case 7:
                previous = choices.choice(snapshots)
                assert previous is not None
                table.rollback(previous)
            case 8:
                parent.delete(f"id = {choices.randrange(most_parents)}")
                table.analyze()
        snapshots.append(table.snapshot)
        rows, ids = table.to_table().to_pylist(), set(parent.to_table()["id"].to_pylist())
        for check in table.check(deep=deep):
            truth = holds(check.claim, rows, ids)
            answers[check.status, truth] += 1
            if check.status == "contradicted":
                assert not truth, (seed, step, check)
                assert check.observed, check
            if check.status == "verified":
                assert truth, (seed, step, check)
    return answers


@pytest.mark.model
@pytest.mark.parametrize("seed", range(4))
def test_no_claim_is_contradicted_falsely(lake: nb.Catalog, seed: int) -> None:
    answers = run(lake, seed, steps=4)
    assert answers["contradicted", False] > 0
    assert answers["verified", True] > 0


@pytest.mark.model
def test_deep_checks_leave_nothing_open(lake: nb.Catalog) -> None:
    answers = run(lake, 77, steps=3, deep=True)
    assert not answers["unchecked", True] + answers["unchecked", False]


@pytest.mark.slow
@pytest.mark.model
def test_a_thousand_claims_over_random_histories(tmp_path: Any) -> None:
    answers: Counter[tuple[str, bool]] = Counter()
    for seed in range(100, 140):
        answers += run(nb.connect(tmp_path / str(seed)), seed, steps=6)
    print(sorted(answers.items()))
    assert sum(answers.values()) > 1000
    decided = sum(
        n for (status, truth), n in answers.items() if status != "unchecked" and not truth
    )
    assert answers["contradicted", False] >= 0.95 * decided
