"""Ratios of what was found: a line a column, means and the worst at the end."""

from __future__ import annotations

import math
from collections.abc import Iterable

from bench.markdown import table
from bench.report import number
from bench.zoo.measure import Found

WORST = 15
Zoo = dict[str, Found]  # family/name -> what was found
# measure -> the systems of which the best one counts
AGAINST = {
    "bytes": ("vortex", "parquet", "parquet_3"),
    "scan": ("vortex",),
    "take": ("vortex",),
    "get": ("vortex",),
    "write": ("parquet",),
}
UNITS = {"bytes": (1, "bytes"), "scan": (1e3, "ms"), "take": (1e3, "ms"), "get": (1e6, "µs"),
         "write": (1e3, "ms")}  # fmt: skip


def ratio(found: Found, measure: str, ours: str) -> float | None:
    values = found.get(measure, {})
    best = min((values[name] for name in AGAINST[measure] if name in values), default=None)
    return values[ours] / best if best and ours in values else None


def mean(ratios: Iterable[float]) -> float:
    logs = [math.log(r) for r in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def line(name: str, found: Found, ours: tuple[str, ...]) -> str:
    """One column, while others are still measured."""
    cells = [f"{name:44}"]
    for measure, values in found.items():
        divisor, unit = UNITS[measure]
        for system in ours:
            if system in values:
                against = ratio(found, measure, system)
                shown = "" if against is None else f" {against:5.2f}x"
                label = measure if len(ours) == 1 else f"{measure} {system}"
                cells.append(f"{label} {number(values[system] * divisor):>9} {unit}{shown}")
    return "  ".join(cells)


def summary(zoo: Zoo, ours: tuple[str, ...]) -> str:
    """Geometric means by family, and the columns that are worst."""
    parts = []
    for system in ours:
        for measure in next(iter(zoo.values()), {}):
            ratios = {n: ratio(found, measure, system) for n, found in zoo.items()}
            known = {n: r for n, r in ratios.items() if r is not None}
            if known:
                parts.append(_of_measure(system, measure, known, zoo))
    return "\n\n".join(parts)


def _of_measure(system: str, measure: str, ratios: dict[str, float], zoo: Zoo) -> str:
    against = " or ".join(AGAINST[measure])
    families: dict[str, list[float]] = {}
    for name, value in ratios.items():
        families.setdefault(name.split("/")[0], []).append(value)
    means = ", ".join(f"{family} {mean(r):.2f}" for family, r in families.items())
    worst = sorted(ratios, key=lambda n: -ratios[n])[:WORST]
    divisor, unit = UNITS[measure]
    names = list(dict.fromkeys(s for n in worst for s in zoo[n][measure]))
    rows = [
        [n, f"{ratios[n]:.2f}"]
        + [number(zoo[n][measure][s] * divisor) if s in zoo[n][measure] else "" for s in names]
        for n in worst
    ]
    head = [
        f"### {measure} of {system} to {against}: geometric mean {mean(ratios.values()):.3f} "
        f"of {len(ratios)} columns, above 1.10: {sum(r > 1.1 for r in ratios.values())}",
        means,
        table(["worst", "ratio", *(f"{n}, {unit}" for n in names)], rows),
    ]
    return "\n\n".join(head)
