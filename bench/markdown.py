"""The overview of a run as Markdown: python -m bench --from-json R --markdown F."""

from __future__ import annotations

from typing import Any

from bench.bars import OURS, Bar, bars, sizes
from bench.report import UNITS, number
from bench.run import workload_of


def overview(found: dict[str, Any]) -> str:
    """Medians of all systems, what was written, and everything else the run has numbers for."""
    parts = [
        facts(found),
        medians(found),
        omitted(found),
        spreads(found),
        storage(found),
        fresh(found),
        cold(found),
        threads(found),
        growth(found),
        reached(bars(found)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def facts(found: dict[str, Any]) -> str:
    config = found["config"]
    begin, end = config["load_average"][0], config["load_average"][-1]
    # the benchmark itself is a load of 1 at its end
    loaded = " (loaded by other work: noisy)" if begin >= 1 or end >= 2 else ""
    versions = ", ".join(f"{n} {v}" for n, v in config["versions"].items() if n != "nimblepy")
    return (
        f"{config['dataset']}: {config['rows']:,} rows, {config['columns']} columns. "
        f"{config['date'][:10]}, commit {config['commit']}, {config['machine']}; "
        f"{config['threads']} thread a system, {config['rounds']} turns each. "
        f"Load average {begin} at begin, {end} at end{loaded}. "
        f"Python {config['python']}, {versions}."
    )


def medians(found: dict[str, Any]) -> str:
    names = [n for n in found["built"] if any(n in t for t in found["workloads"].values())]
    rows = []
    for label, times in found["workloads"].items():
        divisor, unit = UNITS[workload_of(label)[0].unit]
        least = min(t["median"] for t in times.values())
        cells = []
        for peer in names:
            value = times.get(peer, {}).get("median")
            text = "" if value is None else number(value / divisor)
            cells.append(f"**{text}**" if value == least else text)
        rows.append([f"`{label}`, {unit}", *cells])
    return table(["median", *names], rows) if rows else ""


def spreads(found: dict[str, Any]) -> str:
    """p10 to p90 and p99 of nimblepy: what the medians hide."""
    rows = []
    for label, times in found["workloads"].items():
        ours = times.get(OURS)
        if ours is None:
            continue
        divisor, unit = UNITS[workload_of(label)[0].unit]
        cells = [number(ours[k] / divisor) for k in ("p10", "median", "p90", "p99", "cpu")]
        rows.append([f"`{label}`, {unit}", *cells])
    return table(["nimblepy", "p10", "median", "p90", "p99", "processor"], rows) if rows else ""


def omitted(found: dict[str, Any]) -> str:
    if not found["left_out"]:
        return ""
    slow = (f"`{label}`: {', '.join(names)}" for label, names in found["left_out"].items())
    return f"Left out as too slow for the time there was: {'; '.join(slow)}."


def storage(found: dict[str, Any]) -> str:
    parts = []
    if found["write"]:
        rows = [
            [label, number(w["seconds"]), number(w["cpu"]), f"{w['bytes'] / 1e6:,.1f}"]
            for label, w in found["write"].items()
        ]
        parts.append(table(["write, presorted", "median s", "processor s", "MB"], rows))
    size = sizes(found)
    if size:
        order = sorted(size, key=lambda name: size[name])
        rows = [[name, f"{size[name] / 1e6:,.1f}"] for name in order]
        parts.append(table(["on disk, index included", "MB"], rows))
    return "\n\n".join(parts)


def fresh(found: dict[str, Any]) -> str:
    rows = [
        [
            name,
            number(f["open"] * 1e3),
            number(f["first"] * 1e3),
            number(f["rss_kib"] / 1024) if "rss_kib" in f else "",
        ]
        for name, f in found["fresh"].items()
    ]
    return table(["fresh process", "open ms", "first get ms", "MiB grown"], rows) if rows else ""


def cold(found: dict[str, Any]) -> str:
    parts = []
    if found["cold"]:
        rows = []
        for name, c in found["cold"].items():
            counts = [c["lookup"][k][1] for k in ("index_reads", "data_reads", "rounds")]
            kib = number(c["lookup"]["bytes_read"][1] / 1024)
            rows.append([name, f"{c['open']['reads'][1]:g}", *(f"{n:g}" for n in counts), kib])
        head = ["cold, nimblepy (most)", "open", "index reads", "data reads", "rounds", "KiB"]
        parts.append(table(head, rows))
    if found["reads"]:
        rows = [
            [name, f"{r['open_calls']:g}", f"{r['calls']:g}", number(r["bytes"] / 1024)]
            for name, r in found["reads"].items()
        ]
        parts.append(table(["read calls (mapped: none)", "open", "first get", "KiB"], rows))
    return "\n\n".join(parts)


def threads(found: dict[str, Any]) -> str:
    if not found["threads"]:
        return ""
    counts = list(next(iter(found["threads"].values())))
    rows = [
        [f"`{question}`", *(number(rates[n] / 1e6) for n in counts)]
        for question, rates in found["threads"].items()
    ]
    return table(["million keys a second, threads", *counts], rows)


def growth(found: dict[str, Any]) -> str:
    if not found["growth"]:
        return ""
    labels = list(next(iter(found["growth"].values())))
    rows = []
    for question, times in found["growth"].items():
        divisor, unit = UNITS[workload_of(question)[0].unit]
        values = [times[label]["median"] / divisor for label in labels]
        cells = [number(v) for v in values]
        rows.append([f"`{question}`, {unit}", *cells, f"{number(values[-1] / values[0])} x"])
    return table(["nimblepy", *labels, "ratio"], rows)


def reached(wanted: list[Bar]) -> str:
    """A row a bar: its limit, what was measured, and how far that is from it."""
    rows = []
    for bar in wanted:
        limit = f"{'≥' if bar.at_least else '≤'} {number(bar.limit)} {bar.unit}"
        text = f"{bar.text} ({bar.against})" if bar.against else bar.text
        met = "yes" if bar.met else "**no**"
        rows.append([text, limit, f"{number(bar.value)} {bar.unit}", f"{number(bar.ratio)} x", met])
    return table(["bar", "limit", "measured", "to the bar", "met"], rows) if rows else ""


# rows of the README: what it is called there, workload
SHOWN = (
    ("one row by key, hot, as a dict", "get_hot"),
    ("one row by key, random", "get"),
    ("key that is not there", "get_absent"),
    ("10,000 keys, 3 columns, per key", "lookup_10k"),
    ("100,000 keys, 3 columns, per key", "lookup_100k"),
    ("range of 1,000 rows", "range_1000"),
    ("full scan to Arrow", "scan"),
    ("two columns", "scan_two"),
    ("filtered sum, 1 % pass", "filtered_sum"),
)


def comparison(found: dict[str, Any], names: dict[str, str]) -> str:
    """The table of the README: `names` are peers and what they are called there."""
    rows = []
    for text, label in SHOWN:
        times = {n: t["median"] for n, t in found["workloads"].get(label, {}).items() if n in names}
        least = min(times.values(), default=0)
        cells = []
        for peer in names:
            cell = duration(times[peer]) if peer in times else ""
            cells.append(f"**{cell}**" if cell and times[peer] == least else cell)
        rows.append([text, *cells])
    size = {n: b for n, b in sizes(found).items() if n in names}
    for text, cells in (
        ("write, presorted, with index", [_seconds(found, n) for n in names]),
        ("size", [f"{size[n] / 1e6:,.1f} MB" if n in size else "" for n in names]),
    ):
        rows.append([text, *cells])
    return table(["", *names.values()], rows)


def _seconds(found: dict[str, Any], peer: str) -> str:
    return f"{number(found['write'][peer]['seconds'])} s" if peer in found["write"] else ""


def duration(ns: float) -> str:
    for unit, divisor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= divisor:
            return f"{number(ns / divisor)} {unit}"
    return f"{ns / 1e3:.2f} µs"
