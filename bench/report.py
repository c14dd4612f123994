"""Prints what a run found: configuration, times with ratios, and the bars that must be reached."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.workloads import BY_NAME

OURS = "nimblepy"
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
    if found["built"]:
        console.print(sizes_table(found))
    if found["write"]:
        console.print(write_table(found))
    if found["fresh"]:
        console.print(fresh_table(found))
    if found["cold"]:
        console.print(cold_table(found))
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
    workload = BY_NAME[name]
    divisor, unit = UNITS[workload.unit]
    table = titled(
        f"{name}: {workload.meaning}",
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
    ours = found["built"].get(OURS, {}).get("bytes")
    for peer, built in sorted(found["built"].items(), key=lambda item: item[1]["bytes"]):
        ratio = f"{number(built['bytes'] / ours)} x" if ours else ""
        table.add_row(peer, f"{built['bytes'] / 1e6:,.1f}", ratio, number(built["seconds"]))
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


def bars_table(found: dict[str, Any]) -> Table:
    table = titled("what must be reached", "bar", "limit", "measured", "met")
    for text, limit, measured, unit in bars(found):
        met = "yes" if measured <= limit else "[red]no[/red]"
        table.add_row(text, f"{number(limit)} {unit}", f"{number(measured)} {unit}", met)
    return table


def bars(found: dict[str, Any]) -> list[tuple[str, float, float, str]]:
    """(what, most it may be, what it is, unit) of the bars this run has numbers for."""
    out: list[tuple[str, float, float, str]] = []
    times, write, built = found["workloads"], found["write"], found["built"]

    def median(workload: str, peer: str = OURS, kind: str = "median") -> float | None:
        return times.get(workload, {}).get(peer, {}).get(kind)

    for workload, text, limit in (
        ("get_hot", "get of one warm row as a dict", 5.0),
        ("lookup_10k", "lookup of 10,000 random keys, a key", 1.5),
    ):
        value = median(workload)
        if value is not None:
            out.append((text, limit, value / 1e3, "µs"))
    for workload, text in (("scan", "full scan, batches"), ("scan_table", "full scan, table")):
        for kind, note in (("median", "time"), ("cpu", "processor time")):
            ours, theirs = median(workload, kind=kind), median(workload, "parquet", kind)
            if ours and theirs:
                out.append((f"{text}: {note} of Parquet's", 1 / 3, ours / theirs, "x"))
    if OURS in built and "parquet" in built:
        out.append(("size of Parquet zstd's", 1.15, ratio(built, "bytes", OURS, "parquet"), "x"))
    if OURS in write and "parquet" in write:
        for kind in ("seconds", "cpu"):
            value = ratio(write, kind, OURS, "parquet")
            out.append((f"write: {kind} of Parquet zstd's", 1.0, value, "x"))
    if "nimblepy, no index" in write:
        for kind in ("fastest", "least_cpu"):
            share = 1 - 1 / ratio(write, kind, OURS, "nimblepy, no index")
            out.append((f"index share of write ({kind})", 5.0, 100 * share, "%"))
        per_row = write[OURS]["index_bytes"] / found["config"]["rows"]
        out.append(("index bytes a row", 3.0, per_row, "bytes"))
    cold = found["cold"].get("lookup of one key, all columns")
    if cold:
        rounds = cold["lookup"]["rounds"][1] - cold["lookup"]["index_reads"][1]
        out.append(("cold: rounds of data reads of a lookup", 1, rounds, "rounds"))
    cold = found["cold"].get("get, all columns")
    if cold:
        out.append(("cold: reads to open", 1, cold["open"]["reads"][1], "reads"))
        out.append(("cold: index reads of a get", 2, cold["lookup"]["index_reads"][1], "reads"))
        rounds = cold["lookup"]["rounds"][1] - cold["lookup"]["index_reads"][1]
        out.append(("cold: rounds of data reads of a get", 1, rounds, "rounds"))
        columns = found["config"]["columns"]
        out.append(("cold: data reads of a get", columns, cold["lookup"]["data_reads"][1], "reads"))
        bloom = found["cold"]["get, absent key, Bloom filter"]["lookup"]["data_reads"][1]
        out.append(("cold: data reads of an absent key, Bloom", 0, bloom, "reads"))
    return out


def ratio(table: dict[str, dict[str, float]], kind: str, ours: str, theirs: str) -> float:
    return table[ours][kind] / table[theirs][kind]
