"""Results as lines on a terminal and as a page."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import Any

import psutil

from bench.run import _commit, _version


def configuration(scale: float, turns: int) -> dict[str, Any]:
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": _commit(),
        "machine": f"{os.cpu_count()} cores, {psutil.virtual_memory().total >> 30} GiB",
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("pyspark", "pyarrow")},
        },
        "scale": scale,
        "turns": turns,
        "load_average": [round(os.getloadavg()[0], 2)],
    }


def lines(name: str, found: dict[str, Any]) -> str:
    """One workload for a terminal."""
    out = [f"{name}: {found['meaning']}"]
    for way, cost in found.get("ways", {}).items():
        text = f"  {way:26} wall {cost['wall_min']:8.3f} s (median {cost['wall_median']:.3f})"
        if "cpu_min" in cost:
            text += f"   cpu {cost['cpu_min']:7.2f} s (median {cost['cpu_median']:.2f})"
        out.append(text)
    for what, sizes in found.get("bytes", {}).items():
        out.append(f"  {what:26} " + ", ".join(f"{k} {v / 1e6:.0f} MB" for k, v in sizes.items()))
    return "\n".join([*out, f"  {_verdict(found['bar'])}"])


def _verdict(bar: dict[str, Any]) -> str:
    met = "met" if bar["met"] else "NOT MET"
    return f"{bar['text']}: {bar['value']:.3g}, bar {bar['limit']:g}: {met}"


def page(results: dict[str, Any]) -> str:
    """The Markdown page of a run."""
    config = results["config"]
    versions = ", ".join(f"{name} {number}" for name, number in config["versions"].items())
    loads = " and ".join(f"{load:g}" for load in config["load_average"])
    out = [
        "# Spark beside nimblepy in Spark",
        "",
        f"`python -m bench.spark`, {config['date']}, commit {config['commit']}, `local[2]` on "
        f"{config['machine']}, {versions}. Load average {loads} at begin and end.",
        "Least of interleaved turns, JVM and page cache warm; cpu is of driver, JVM and Python "
        "workers together.",
    ]
    if config["scale"] != 1:
        out += ["", f"Scale {config['scale']:g}: all numbers of rows are multiplied by that."]
    out += ["", "| workload | bar | value | limit | |", "| --- | --- | ---: | ---: | --- |"]
    for found in results["workloads"].values():
        bar = found["bar"]
        met = "met" if bar["met"] else "**not met**"
        numbers = f"{bar['value']:.3g} | {bar['limit']:g}"
        out.append(f"| {found['meaning']} | {bar['text']} | {numbers} | {met} |")
    out += ["", "| workload | way | wall s | median | cpu s | median |"]
    out += ["| --- | --- | ---: | ---: | ---: | ---: |"]
    for name, found in results["workloads"].items():
        for way, cost in found.get("ways", {}).items():
            keys = ("wall_min", "wall_median", "cpu_min", "cpu_median")
            shown = " | ".join(f"{cost[key]:.3f}" if key in cost else "" for key in keys)
            out.append(f"| `{name}` | {way} | {shown} |")
    sizes = results["workloads"].get("memory", {}).get("bytes", {})
    if sizes:
        out += ["", "| memory of a Python worker | own MB | mapped MB |", "| --- | ---: | ---: |"]
        out += [
            f"| {n} | {s['own'] / 1e6:.0f} | {s['mapped'] / 1e6:.0f} |" for n, s in sizes.items()
        ]
    return "\n".join(out) + "\n"
