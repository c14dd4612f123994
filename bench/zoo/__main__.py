"""`python -m bench.zoo`: every kind of column alone in a file, beside other formats.

python -m bench.zoo --only bytes             sizes: needs no quiet machine
python -m bench.zoo --columns 'floats|nulls' --only scan,take
python -m bench.zoo --peers nimblepy,compact,vortex,parquet --rows 200000 --json out.json

Ratios: bytes to the smaller of Vortex and Parquet (zstd 1 and 3), reading to Vortex, writing to
Parquet (zstd 1); with one thread in processor time. Columns are generated once, with the peers'
files, under $NIMBLEPY_DATA.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench.zoo import report
from bench.zoo.measure import MEASURES, Plan, measure
from bench.zoo.registry import chosen
from bench.zoo.systems import OURS, SYSTEMS, USUAL


def names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.zoo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--columns", default="", help="regular expression for family/name (all)")
    add("--peers", type=names, default=USUAL, help=f"of {','.join(SYSTEMS)} ({','.join(USUAL)})")
    add("--rows", type=int, default=1_000_000, help="at most (1000000)")
    add("--only", type=names, default=MEASURES, help=f"of {','.join(MEASURES)} (all)")
    add("--rounds", type=int, default=5, help="turns of every system (5)")
    add("--threads", type=int, default=1, help="of a scan; more than 1: wall clock (1)")
    add("--rebuild", action="store_true", help="write the files of peers again")
    add("--json", type=Path, help="write what was found there")
    add("--list", action="store_true", help="list the columns")
    arguments = parser.parse_args()
    columns = chosen(arguments.columns)
    for given, known in ((arguments.peers, SYSTEMS), (arguments.only, MEASURES)):
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"unknown: {', '.join(unknown)}; expected some of {', '.join(known)}")
    if arguments.list:
        for column in columns:
            print(f"{column.family}/{column.name}")
        return 0
    plan = Plan(
        systems=arguments.peers,
        measures=tuple(m for m in MEASURES if m in arguments.only),
        rows=arguments.rows,
        rounds=arguments.rounds,
        threads=arguments.threads,
        rebuild=arguments.rebuild,
    )
    ours = tuple(name for name in arguments.peers if name in OURS)
    zoo: report.Zoo = {}
    for column in columns:
        label = f"{column.family}/{column.name}"
        zoo[label] = measure(column, plan)
        print(report.line(label, zoo[label], ours), flush=True)
    print("\n" + report.summary(zoo, ours))
    if arguments.json:
        arguments.json.write_text(json.dumps(zoo, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
