"""Prints what a run found: configuration, times with ratios, and the bars that must be reached."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.bars import OURS, bars, sizes
from bench.run import workload_of

UNITS = {"us": (1e3, "µs"), "ms": (1e6, "ms"), "ns_key": (1.0, "ns/key")}


def number(value: float) -> str:
    """Three digits that mean something."""
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def show(found: dict[str, Any], console: Console | None = None) -> None:
    console = console or Console(width=None if os.isatty(1) else 120)
    configuration(found, console)
    for name, times in found["workloads"].items():
        console.print(workload_table(name, times))
    for label, slow in found["left_out"].items():
        text = ", ".join(f"{name} ({seconds:.1f} s a question)" for name, seconds in slow.items())
        console.print(f"{label}: left out as too slow: {text}", highlight=False)
    if found["built"]:
        console.print(sizes_table(found))
    if found["write"]:
        console.print(write_table(found))
    if found["fresh"]:
        console.print(fresh_table(found))
    if found["cold"]:
        console.print(cold_table(found))
    if found["reads"]:
        console.print(reads_table(found))
    if found["threads"]:
        console.print(threads_table(found))
    if found["growth"]:
        console.print(growth_table(found))
    console.print(bars_table(found))
    for problem in found["problems"]:
        console.print(f"[red]problem:[/red] {problem}", highlight=False)


def configuration(found: dict[str, Any], console: Console) -> None:
    config = found["config"]
    load = config["load_average"]
    console.rule(f"nimblepy {config['dataset']}: {config['rows']:,} rows")
    for name in ("date", "machine", "python", "commit", "nimblepy_build", "threads", "rounds"):
        console.print(f"{name}: {config[name]}", highlight=False)
    console.print("versions: " + ", ".join(f"{n} {v}" for n, v in config["versions"].items()))
    console.print(f"state: {config['state']}")
    loaded = "the machine was loaded by others: compare ratios and processor time"
    console.print(f"load average at begin and end: {load} {loaded if max(load) >= 1 else ''}")
    for name, text in config["settings"].items():
        console.print(f"  {name}: {text}", highlight=False)


def titled(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="right" if i else "left", no_wrap=i > 0)
    return table


def workload_table(name: str, times: dict[str, dict[str, float]]) -> Table:
    workload, threads = workload_of(name)
    divisor, unit = UNITS[workload.unit]
    table = titled(
        f"{name}: {workload.meaning}" + (f", {threads} threads" if threads > 1 else ""),
        "system",
        f"median {unit}",
        "p99",
        "p10 to p90",
        "processor",
        "ratio to nimblepy",
        "times",
    )
    ours = times.get(OURS, {}).get("median")
    for peer, t in sorted(times.items(), key=lambda item: item[1]["median"]):
        table.add_row(
            f"[bold]{peer}[/bold]" if peer == OURS else peer,
            number(t["median"] / divisor),
            number(t["p99"] / divisor),
            f"{number(t['p10'] / divisor)} to {number(t['p90'] / divisor)}",
            number(t["cpu"] / divisor),
            f"{number(t['median'] / ours)} x" if ours else "",
            f"{t['count']:,}",
        )
    return table


def sizes_table(found: dict[str, Any]) -> Table:
    table = titled("size on disk, all indexes included; build", "system", "MB", "ratio", "build s")
    size = sizes(found)
    for peer in sorted(size, key=lambda name: size[name]):
        ratio = f"{number(size[peer] / size[OURS])} x" if OURS in size else ""
        seconds = found["built"].get(peer, found["write"].get(peer, {})).get("seconds")
        built = number(seconds) if seconds else ""
        table.add_row(peer, f"{size[peer] / 1e6:,.1f}", ratio, built)
    return table


def write_table(found: dict[str, Any]) -> Table:
    table = titled(
        "write: presorted rows in memory to a finished, synced file",
        "writer",
        "median s",
        "fastest s",
        "processor s",
        "MB",
        "index bytes a row",
    )
    rows = found["config"]["rows"]
    for label, w in found["write"].items():
        table.add_row(
            label,
            number(w["seconds"]),
            number(w["fastest"]),
            number(w["cpu"]),
            f"{w['bytes'] / 1e6:,.1f}",
            number(w["index_bytes"] / rows) if w["index_bytes"] else "",
        )
    return table


def fresh_table(found: dict[str, Any]) -> Table:
    title = "fresh process, imports excluded"
    table = titled(title, "system", "open ms", "first get ms", "memory grown MiB")
    for peer, f in found["fresh"].items():
        grown = number(f["rss_kib"] / 1024) if "rss_kib" in f else ""
        table.add_row(peer, number(f["open"] * 1e3), number(f["first"] * 1e3), grown)
    return table


def cold_table(found: dict[str, Any]) -> Table:
    table = titled(
        "cold reads (io_stats, mmap=False, a new open each time): median, most",
        "question",
        "open reads",
        "index reads",
        "data reads",
        "rounds",
        "KiB",
    )
    for name, cold in found["cold"].items():
        counts = [cold["open"]["reads"]]
        counts += [cold["lookup"][c] for c in ("index_reads", "data_reads", "rounds")]
        kib = [value / 1024 for value in cold["lookup"]["bytes_read"]]
        table.add_row(name, *(f"{c[0]:g}, {c[1]:g}" for c in counts), ", ".join(map(number, kib)))
    return table


def reads_table(found: dict[str, Any]) -> Table:
    title = "read calls of a first get after an open, files in the page cache (mapped: none)"
    table = titled(title, "system", "open calls", "open KiB", "get calls", "get KiB")
    for name, r in found["reads"].items():
        kib = (number(r[k] / 1024) for k in ("open_bytes", "bytes"))
        table.add_row(name, f"{r['open_calls']:g}", next(kib), f"{r['calls']:g}", next(kib))
    return table


def threads_table(found: dict[str, Any]) -> Table:
    counts = list(next(iter(found["threads"].values())))
    headings = [f"{n} thread{'s' if n != '1' else ''}" if n.isdigit() else n for n in counts]
    table = titled("keys a second on one open file, millions", "question", *headings)
    for question, rates in found["threads"].items():
        table.add_row(question, *(number(rates[n] / 1e6) for n in counts))
    return table


def growth_table(found: dict[str, Any]) -> Table:
    labels = list(next(iter(found["growth"].values())))
    table = titled("the same lookups in a larger file", "question", *labels, "ratio")
    for question, times in found["growth"].items():
        divisor, unit = UNITS[workload_of(question)[0].unit]
        values = [times[label]["median"] / divisor for label in labels]
        cells = (f"{number(v)} {unit}" for v in values)
        table.add_row(question, *cells, f"{number(values[-1] / values[0])} x")
    return table


def bars_table(found: dict[str, Any]) -> Table:
    table = titled("what must be reached", "bar", "limit", "measured", "to the bar", "met")
    for bar in bars(found):
        met = "yes" if bar.met else "[red]no[/red]"
        limit = f"{'at least ' if bar.at_least else ''}{number(bar.limit)} {bar.unit}"
        text = f"{bar.text} ({bar.against})" if bar.against else bar.text
        ratio = f"{number(bar.ratio)} x"
        table.add_row(text, limit, f"{number(bar.value)} {bar.unit}", ratio, met)
    return table
