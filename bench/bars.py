"""What must be reached, and how far a run is from it.

A bar is measured in one run: nimblepy and the peers it is compared with took turns there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.peers.peer import COLUMNAR, KEY_VALUE, NOT_DECODING

OURS = "nimblepy"
Times = dict[str, dict[str, dict[str, float]]]


@dataclass(frozen=True)
class Bar:
    text: str
    limit: float
    value: float
    unit: str
    against: str = ""  # the peer it is a ratio to, or nothing
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def ratio(self) -> float:
        """Above 1: not reached."""
        small, large = sorted((self.value, self.limit)) if self.limit else (0, self.value)
        if not small:
            return 0 if self.met else float("inf")
        return small / large if self.met else large / small


def bars(found: dict[str, Any]) -> list[Bar]:
    """The bars this run has numbers for; most are set for TPC-H orders."""
    times: Times = found["workloads"]
    kind = found["config"]["dataset"].split("-")[0]
    out = [*_growth(found)]
    if kind == "orders":
        out += [*_points(times), *_ranges(times), *_scans(times), *_write(found)]
        out += [*_fresh(found), *_cold(found), *_threads(found)]
    if kind == "events":
        out += _prefixes(times)
    if kind in ("orders", "events", "uuids"):
        out += _sizes(found)
    return out


def median(times: Times, workload: str, peer: str = OURS) -> float | None:
    return times.get(workload, {}).get(peer, {}).get("median")


def net(times: Times, workload: str, peer: str = OURS) -> float | None:
    """The median without what asking takes, for limits in microseconds."""
    found = times.get(workload, {}).get(peer)
    return None if found is None else found["median"] - found.get("asking", 0.0)


def best(times: Times, workload: str, among: tuple[str, ...] | None = None) -> tuple[str, float]:
    """The quickest other system and its median; infinite where there is none."""
    found = [
        (t["median"], name)
        for name, t in times.get(workload, {}).items()
        if not name.startswith(OURS) and (among is None or name in among)
    ]
    return (min(found)[1], min(found)[0]) if found else ("", float("inf"))


def _against(times: Times, workload: str, text: str, limit: float, peer: str) -> Iterator[Bar]:
    ours, theirs = median(times, workload), median(times, workload, peer)
    if ours and theirs:
        yield Bar(text, limit, ours / theirs, "x", peer)


def _against_best(
    times: Times, workload: str, text: str, limit: float, among: tuple[str, ...] | None = None
) -> Iterator[Bar]:
    peer, _ = best(times, workload, among)
    yield from _against(times, workload, text, limit, peer)


def _points(times: Times) -> Iterator[Bar]:
    for workload, text, limit, peer_limit in (
        ("get_hot", "`get` hot", 3.0, 0.7),
        ("get", "`get` present, random", None, 1.0),
        ("get_absent", "absent key", 1.0, None),
        ("lookup_10k", "`lookup` 10k, a key", 0.7, 0.35),
        ("lookup_100k", "`lookup` 100k, a key", 0.5, 0.25),
    ):
        value = net(times, workload)
        if value and limit:
            yield Bar(text, limit, value / 1e3, "µs")
        if peer_limit:
            yield from _against(times, workload, f"{text}, to LMDB", peer_limit, "lmdb")
    bloomed = net(times, "get_absent", "nimblepy_bloom")
    if bloomed:
        yield Bar("absent key, Bloom filter", 0.5, bloomed / 1e3, "µs")


def _ranges(times: Times) -> Iterator[Bar]:
    value = median(times, "range_1000")
    if value:
        yield Bar("range of 1,000 rows", 30, value / 1e3, "µs")
    text = "range of 1,000 rows, to the best columnar peer"
    yield from _against_best(times, "range_1000", text, 0.2, COLUMNAR)


def _prefixes(times: Times) -> Iterator[Bar]:
    text = "prefix scan, to the best"
    yield from _against_best(times, "prefix", f"{text} columnar peer", 0.2, COLUMNAR)
    yield from _against_best(times, "prefix", f"{text} key-value peer", 0.5, KEY_VALUE)


def _scans(times: Times) -> Iterator[Bar]:
    for label in times:
        name, _, threads = label.partition("@")
        count = f"{threads or 1} thread" + ("s" if threads else "")
        texts = {
            "scan": ("full scan, batches", 0.9),
            "scan_table": ("full scan, one table", 0.9),
            "scan_two": ("two-column scan", 1.0),
            "filtered_sum": ("filtered sum at 1 %", 1.0),
        }
        if name in texts:
            text, limit = texts[name]
            among = tuple(p for p in times[label] if p not in NOT_DECODING)
            yield from _against_best(
                times, label, f"{text}, {count}, to the fastest peer", limit, among
            )


def sizes(found: dict[str, Any]) -> dict[str, float]:
    """Bytes on disk of every system that has files of its own, indexes included."""
    out = {
        name: built["bytes"] for name, built in found["built"].items() if not built.get("borrowed")
    }
    for label, w in found["write"].items():
        if label in out or "compact" in label:
            out[label] = w["bytes"]
    return {n: b for n, b in out.items() if n not in ("nimblepy_bloom", "nimblepy_sorted")}


def _sizes(found: dict[str, Any]) -> Iterator[Bar]:
    size = sizes(found)
    others = {n: b for n, b in size.items() if not n.startswith(OURS)}
    # a peer's best configuration for size is compared with ours
    plain = {n: b for n, b in others.items() if "compact" not in n}
    if OURS in size and plain:
        smallest = min(plain, key=lambda n: plain[n])
        text = "size with index, to the smallest peer"
        yield Bar(text, 1.03, size[OURS] / plain[smallest], "x", smallest)
    if "nimblepy, compact" in size and others:
        smallest = min(others, key=lambda n: others[n])
        value = size["nimblepy, compact"] / others[smallest]
        yield Bar("size of `compact`, to the smallest of all", 1.0, value, "x", smallest)


def _write(found: dict[str, Any]) -> Iterator[Bar]:
    write = found["write"]
    if OURS in write and "parquet" in write:
        for kind, name in (("seconds", "time"), ("cpu", "processor time")):
            value = write[OURS][kind] / write["parquet"][kind]
            yield Bar(f"write with index, {name}, to Parquet zstd", 1.0, value, "x", "parquet")


def _fresh(found: dict[str, Any]) -> Iterator[Bar]:
    fresh = found["fresh"].get(OURS)
    if fresh:
        total = (fresh["open"] + fresh["first"]) * 1e3
        yield Bar("open and first lookup, fresh process", 3, total, "ms")
        if "rss_kib" in fresh:
            yield Bar("peak memory grown by them", 8, fresh["rss_kib"] / 1024, "MiB")


def _cold(found: dict[str, Any]) -> Iterator[Bar]:
    one = found["cold"].get("get, 1 column")
    if one:
        yield Bar("cold lookup: rounds of reads", 3, one["lookup"]["rounds"][1], "rounds")
        kib = one["lookup"]["bytes_read"][1] / 1024
        yield Bar("cold lookup of 1 column: bytes", 64, kib, "KiB")


def _threads(found: dict[str, Any]) -> Iterator[Bar]:
    rates = found["threads"].get("lookup_10k")
    if rates:
        yield Bar("lookups/s, 2 threads to 1", 1.8, rates["2"] / rates["1"], "x", at_least=True)
        # noise of a few per cent is no fall
        yield Bar("lookups/s, 8 threads to 2", 0.95, rates["8"] / rates["2"], "x", at_least=True)


def _growth(found: dict[str, Any]) -> Iterator[Bar]:
    for question in ("get", "lookup_10k"):
        both = found["growth"].get(question)
        if both:
            small, large = list(both)
            value = both[large]["median"] / both[small]["median"]
            yield Bar(f"`{question}` in {large}, to {small}", 1.6, value, "x")
