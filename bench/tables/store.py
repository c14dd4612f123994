"""What a store is asked for a plan of very many files, by listing directories and by metadata.

``python -m bench.tables.store`` prints the arithmetic: requests, rounds of requests that wait for
each other, and seconds, for stores that answer in 20 and 60 ms. With ``--measured DIRECTORY``,
which ``bench.tables.files`` made, the requests of a plan are counted there instead of computed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

from bench.tables.files import FIRST_DAY, USERS
from nimblepy.table.catalog import connect
from nimblepy.table.reading import plan

DAYS = 730
WEEK = 7
PAGE = 1_000  # names of a page of a listing
PARALLEL = 64
# Files of a manifest as `rewrite_manifests` writes them, and of one that is written with a day.
ENTRIES = 4_096
_LATENCIES_MS = (20, 60)
ROUNDS_OF_INDEX = 3  # tail, group, blocks


@dataclass(frozen=True)
class Way:
    """A way to plan.

    Attributes:
        rounds: requests of each round, which are made together, ``PARALLEL`` at a time.
    """

    name: str
    rounds: tuple[int, ...]

    @property
    def requests(self) -> int:
        return sum(self.rounds)

    @property
    def waits(self) -> int:
        """Requests that wait for each other."""
        return sum(math.ceil(count / PARALLEL) for count in self.rounds)


def ways(files: int, reads_of_index: int | None = None) -> Iterator[Way]:
    """Ways to find the files of one week and one user.

    Args:
        reads_of_index: files of metadata that a plan by the plan index opens, where it was counted.
    """
    per_day = math.ceil(files / DAYS)
    pages = math.ceil(per_day / PAGE)
    manifests = (
        DAYS * math.ceil(per_day / ENTRIES)
        if per_day > ENTRIES // 2
        else math.ceil(files / ENTRIES)
    )
    of_week = math.ceil(manifests * WEEK / DAYS) + 1
    yield Way("list all names, page after page", (1,) * math.ceil(files / PAGE))
    yield Way(f"list {DAYS} directories", (DAYS,) * pages)
    yield Way("the same, and the footers of all files", (DAYS,) * pages + (files,))
    yield Way(
        f"list the {WEEK} directories, and the footers", ((WEEK,) * pages) + (WEEK * per_day,)
    )
    yield Way("manifests of neighbouring days", (1, 1, of_week))
    yield Way("manifests that each have all days", (1, 1, manifests))
    opened = 3 if reads_of_index is None else reads_of_index
    yield Way("the plan index", (1, 1) + (opened - 2,) * ROUNDS_OF_INDEX)


def counted(directory: str) -> int:
    """Files of metadata that a plan of a week and a user opens, by a process that knows nothing."""
    lake = connect(directory)
    plan.clear_caches()
    table = lake.table("bench.events")
    first = FIRST_DAY + DAYS // 2
    day = "TIMESTAMP '1970-01-01' + INTERVAL {} DAY"
    rows = table._current.for_filter(
        f"event_ts >= {day.format(first)} AND event_ts < {day.format(first + WEEK)} "
        f"AND user_id = {USERS // 2 + 1}"
    )
    assert rows.num_files
    return rows.plan.metadata_reads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--files", type=int, nargs="*", default=[1_022_000, 10_220_000, 102_200_000]
    )
    parser.add_argument("--measured", metavar="DIRECTORY")
    options = parser.parse_args()
    reads = None if options.measured is None else counted(options.measured)
    for files in options.files:
        print(f"\n{files:,} files\n")
        heads = " | ".join(f"at {ms} ms" for ms in _LATENCIES_MS)
        print(f"| | requests | rounds | {heads} |\n|---|---:|---:|---:|---:|")
        for way in ways(files, reads):
            seconds = " | ".join(f"{way.waits * ms / 1e3:,.2f} s" for ms in _LATENCIES_MS)
            print(f"| {way.name} | {way.requests:,} | {way.waits:,} | {seconds} |")


if __name__ == "__main__":
    main()
