"""The overview of a run as Markdown, for README.md: python -m bench --from-json R --markdown F."""

from __future__ import annotations

from typing import Any

from bench.report import UNITS, bars, number
from bench.workloads import BY_NAME


def overview(found: dict[str, Any]) -> str:
    """Medians of all systems, what was written, and the bars."""
    parts = [facts(found), medians(found), storage(found), reached(found)]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def facts(found: dict[str, Any]) -> str:
    config = found["config"]
    begin, end = config["load_average"]
    loaded = " (loaded by other work: noisy)" if max(begin, end) >= 1 else ""
    versions = ", ".join(f"{n} {v}" for n, v in config["versions"].items() if n != "nimblepy")
    return (
        f"{config['dataset']}: {config['rows']:,} rows, {config['columns']} columns. "
        f"{config['date'][:10]}, commit {config['commit']}, {config['machine']}; "
        f"{config['threads']} thread a system, {config['rounds']} turns each. "
        f"Load average {begin} at begin, {end} at end{loaded}. "
        f"Python {config['python']}, {versions}."
    )


def medians(found: dict[str, Any]) -> str:
    names = list(found["built"])
    rows = []
    for name, times in found["workloads"].items():
        divisor, unit = UNITS[BY_NAME[name].unit]
        best = min(t["median"] for t in times.values())
        cells = []
        for peer in names:
            value = times.get(peer, {}).get("median")
            text = "" if value is None else number(value / divisor)
            cells.append(f"**{text}**" if value == best else text)
        rows.append([f"`{name}`, {unit}", *cells])
    return table(["median", *names], rows) if rows else ""


def storage(found: dict[str, Any]) -> str:
    if not found["write"]:
        return ""
    rows = [
        [label, number(w["seconds"]), number(w["cpu"]), f"{w['bytes'] / 1e6:,.1f}"]
        for label, w in found["write"].items()
    ]
    return table(["write, presorted", "median s", "processor s", "MB"], rows)


def reached(found: dict[str, Any]) -> str:
    rows = [
        [text, f"{number(limit)} {unit}", f"{number(value)} {unit}", _met(value, limit)]
        for text, limit, value, unit in bars(found)
    ]
    return table(["bar", "at most", "measured", "met"], rows) if rows else ""


def _met(value: float, limit: float) -> str:
    return "yes" if value <= limit else "**no**"
