"""`python -m bench.agents`: right answers with and without claims, stale ones, and checks.

Five arms: without claims; with true ones; with stale ones that are trusted; with stale ones and
their checks; and with true ones and their checks. Lake, claims, questions and agent have one
author, and the parse of each question is given. So the numbers compare arms; they do not say how
well a model does. ``--url`` runs a model behind an OpenAI-compatible endpoint instead.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import duckdb

import nimblepy as nb
from bench.agents import lake as lakes
from bench.agents import stale as forms
from bench.agents.agent import Agent, Arm
from bench.agents.model import ModelAgent
from bench.agents.questions import QUESTIONS, Question
from nimblepy.mcp.answers import Answers
from nimblepy.mcp.lake import SharedLake

ARMS: list[tuple[str, bool, bool, Arm]] = [  # name, described, stale, agent
    ("bare", False, False, "bare"),
    ("described", True, False, "trusting"),
    ("described, checked", True, False, "checking"),
    ("20 % stale, trusted", True, True, "trusting"),
    ("20 % stale, checked", True, True, "checking"),
]


def gold(seed: int) -> list[float]:
    """The answers of DuckDB over the rows, without nimblepy."""
    connection = duckdb.connect()
    for number, (name, (data, _)) in enumerate(lakes.rows(seed).items()):
        connection.register(f"r{number}", data)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name.partition('.')[0]}")
        connection.execute(f"CREATE TABLE {name} AS FROM r{number}")
    return [float(connection.execute(q.gold).fetchall()[0][0]) for q in QUESTIONS]


def made(place: Path, seed: int, claims: lakes.Claims | None) -> nb.Catalog:
    lake = nb.connect(place)
    lakes.make(lake, seed)
    if claims is not None:
        lakes.describe(lake, claims)
    return lake


def outcomes(ask: Callable[[Question], float | None], expected: list[float]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for question, right in zip(QUESTIONS, expected, strict=True):
        given = ask(question)
        if given is None:
            counts["abstained"] += 1
        else:
            counts["right" if abs(given - right) <= 1e-6 * max(1, abs(right)) else "wrong"] += 1
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.agents", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--stale", type=float, default=0.2, help="share of stale claims")
    parser.add_argument("--url", help="an OpenAI-compatible endpoint, such as http://host/v1")
    parser.add_argument("--model", help="the model's name")
    options = parser.parse_args()
    if (options.url is None) != (options.model is None):
        parser.error("--url and --model belong together")
    results: dict[str, list[Counter[str]]] = defaultdict(list)
    spent: dict[str, list[float]] = defaultdict(list)
    detected: Counter[tuple[str, str]] = Counter()
    flagged_true = true = 0
    for seed in range(options.seeds):
        expected = gold(seed)
        claims = lakes.true_claims()
        stale, injected = forms.made_stale(claims, options.stale, seed)
        with tempfile.TemporaryDirectory() as folder:
            for number, (name, described, is_stale, arm) in enumerate(ARMS):
                sheet = (stale if is_stale else claims) if described else None
                lake = made(Path(folder) / str(number), seed, sheet)
                answers = Answers(SharedLake(str(Path(folder) / str(number))))
                agent = (
                    ModelAgent(answers, arm, options.url, options.model)
                    if options.url
                    else Agent(answers, arm)
                )
                results[name].append(outcomes(agent.answer, expected))
                spent[name].append(agent.spent / len(QUESTIONS))
                answers.workers.close()
                if (is_stale, arm) == (True, "checking"):
                    checks = lake.check()
                    injected = forms.told_apart(injected, stale, lake)
                    for place, status in forms.found(injected, checks).items():
                        detected[injected[place], status] += 1
                if (described, is_stale, arm) == (True, False, "checking"):
                    for table_checks in lake.check().values():
                        true += len(table_checks)
                        flagged_true += len(table_checks.contradicted) + len(table_checks.suspect)
    _print(results, spent)
    _print_detected(detected, flagged_true, true)
    return 0


def _print(results: dict[str, list[Counter[str]]], spent: dict[str, list[float]]) -> None:
    print("| arm | right (min-max) | wrong | abstained | tokens a question |")
    print("|---|---:|---:|---:|---:|")
    for name, runs in results.items():
        shares = [100 * run["right"] / run.total() for run in runs]
        others = [
            f"{100 * sum(run[what] for run in runs) / sum(run.total() for run in runs):.1f} %"
            for what in ("wrong", "abstained")
        ]
        right = f"{statistics.mean(shares):.1f} % ({min(shares):.0f}-{max(shares):.0f})"
        tokens = f"{statistics.mean(spent[name]):,.0f}"
        print(f"| {name} | {right} | {others[0]} | {others[1]} | {tokens} |")


def _print_detected(detected: Counter[tuple[str, str]], flagged_true: int, true: int) -> None:
    print("\n| stale form | injected | contradicted | suspect | not found |")
    print("|---|---:|---:|---:|---:|")
    totals: Counter[str] = Counter()
    in_scope: Counter[str] = Counter()
    for form in sorted({form for form, _ in detected}):
        counts = Counter({status: n for (f, status), n in detected.items() if f == form})
        totals += counts
        if form not in forms.OUT_OF_SCOPE:
            in_scope += counts
        refuted, doubted = counts["contradicted"], counts["suspect"]
        missed = counts.total() - refuted - doubted
        print(f"| {form} | {counts.total()} | {refuted} | {doubted} | {missed} |")
    found = totals["contradicted"] + totals["suspect"]
    share = 100 * in_scope["contradicted"] / max(1, in_scope.total())
    print(
        f"\nfound {100 * found / max(1, totals.total()):.1f} % of all {totals.total()}; "
        f"contradicted {share:.1f} % of {in_scope.total()} that values can show; "
        f"precision {100 * found / max(1, found + flagged_true):.1f} % "
        f"({flagged_true} of {true} true claims flagged)"
    )


if __name__ == "__main__":
    sys.exit(main())
