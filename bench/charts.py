"""Bar charts as SVG, readable on light and dark pages; written by hand, so nothing is needed.

Colours switch by `prefers-color-scheme`; the background stays transparent.
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import Any

from bench.bars import sizes
from bench.report import number

WIDTH, LABEL, ROW, GAP, TOP = 720, 140, 20, 6, 62
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 16px; font-weight: 600 }
  .note { font-size: 12px; fill: #57606a }
  .ours { font-weight: 600 }
  rect { fill: #8c959f } rect.ours { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .note { fill: #9198a1 }
    rect { fill: #656c76 } rect.ours { fill: #4493f8 }
  }
"""


def bars(title: str, note: str, values: dict[str, float], unit: str, *, log: bool = False) -> str:
    """One horizontal bar a system, the shortest first.

    log: lengths are logarithmic, for values that span orders of magnitude; the note says so.
    """
    ordered = sorted(values.items(), key=lambda item: item[1])
    room = WIDTH - LABEL - 136
    most = ordered[-1][1]
    least = ordered[0][1] / 2 if log else 0.0
    lines = []
    for i, (name, value) in enumerate(ordered):
        y = TOP + i * (ROW + GAP)
        share = math.log(value / least) / math.log(most / least) if log else value / most
        ours = ' class="ours"' if name.startswith("nimblepy") else ""
        middle = y + ROW / 2 + 4.5
        long = max(2, share * room)
        lines.append(
            f'<text{ours} x="{LABEL - 8}" y="{middle}" text-anchor="end">{escape(name)}</text>'
            f'<rect{ours} x="{LABEL}" y="{y}" width="{long:.1f}" height="{ROW}" rx="2"/>'
            f'<text{ours} x="{LABEL + long + 8:.1f}" y="{middle}">'
            f"{number(value)} {unit}</text>"
        )
    height = TOP + len(ordered) * (ROW + GAP) + 8
    head = f"{title}: " + ", ".join(f"{n} {number(v)} {unit}" for n, v in ordered)
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(head)}">\n'
        f"<style>{STYLE}</style>\n"
        f'<text class="title" x="8" y="24">{escape(title)}</text>\n'
        f'<text class="note" x="8" y="44">{escape(note)}</text>\n{body}\n</svg>\n'
    )


def draw(found: dict[str, Any], folder: Path) -> list[Path]:
    """Lookup, scan, write and size charts of the results; those without numbers are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    config = found["config"]
    where = f"{config['dataset']}, {config['rows'] / 1e6:g}M rows, {config['threads']} thread"
    if config["load_average"][0] >= 1 or config["load_average"][-1] >= 2:
        where += ", on a loaded machine"
    times = found["workloads"]

    def medians(workload: str, divisor: float) -> dict[str, float]:
        return {n: t["median"] / divisor for n, t in times.get(workload, {}).items()}

    written = {
        label: w["seconds"]
        for label, w in found["write"].items()
        if "no index" not in label and "compact" not in label
    }
    on_disk = {name: size / 1e6 for name, size in sizes(found).items()}
    shorter = f"{where}; shorter is better"
    wanted = (
        (
            "lookup",
            "One row by key, random keys",
            f"{shorter}; logarithmic",
            medians("get", 1e3),
            "µs",
        ),
        (
            "batch",
            "10,000 random keys, 3 columns",
            f"{shorter}; logarithmic",
            medians("lookup_10k", 1),
            "ns a key",
        ),
        (
            "range",
            "1,000 neighbouring rows, 3 columns",
            f"{shorter}; logarithmic",
            medians("range_1000", 1e3),
            "µs",
        ),
        (
            "prefix",
            "All rows of one user, 4 of 20 columns",
            f"{shorter}; logarithmic",
            medians("prefix", 1e3) if config["dataset"].startswith("events") else {},
            "µs",
        ),
        ("scan", "Scan of all columns to Arrow", shorter, medians("scan", 1e6), "ms"),
        ("write", "Write of sorted rows, index included", shorter, written, "s"),
        ("size", "Size on disk, index included", shorter, on_disk, "MB"),
    )
    paths = []
    for name, title, note, values, unit in wanted:
        if values:
            path = folder / f"{config['dataset']}-{name}.svg"
            path.write_text(bars(title, note, values, unit, log="logarithmic" in note), "utf-8")
            paths.append(path)
    return paths
