"""`python -m bench`: nimblepy and its peers on the same questions, in turns, answers checked.

python -m bench --list               the workloads, one line each
python -m bench                      TPC-H orders at scale factor 1: some minutes
python -m bench --sf 10              15M rows: needs 10 GB of disk, half an hour
python -m bench --only get,scan --peers nimblepy,lmdb,parquet
python -m bench --dataset events
python -m bench --suite bars --prepare; python -m bench --suite bars
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench import charts, datasets, markdown, report, run, suite
from bench.peers import peer as peers
from bench.process import Settings
from bench.workloads import BY_NAME, WORKLOADS

PARTS = ("questions", "cold", "fresh", "write", "threads")
MORE_PARTS = ("growth",)  # takes 5 GB of disk


def names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--list", action="store_true", help="list workloads and peers")
    add("--dataset", default="orders", choices=datasets.NAMES)
    add("--sf", type=float, default=1, help="TPC-H scale factor (default 1: 1.5M rows)")
    add("--rows", type=int, help="rows of a generated dataset (default: 1M or 5M)")
    add("--peers", type=names, default=list(peers.NAMES), help="default: all that are installed")
    add("--only", type=names, default=list(BY_NAME), help="workloads (default: all)")
    add("--parts", type=names, default=list(PARTS), help=f"of {','.join(PARTS + MORE_PARTS)}")
    add("--rounds", type=int, default=7, help="turns of every peer (7)")
    add("--budget", type=float, default=0.15, help="seconds of a turn of quick questions (0.15)")
    add("--write-rounds", type=int, default=5, help="turns of every writer (5)")
    add("--threads", type=names, default=["1"], help="threads a peer may use; 1,2: scans twice")
    add("--suite", choices=tuple(suite.SUITES), help="several runs that measure every bar")
    add("--steps", type=names, default=[], help="datasets of the suite, as orders-10 (all)")
    add("--prepare", action="store_true", help="only build the files of a suite")
    add("--out", type=Path, default=Path("bench/results"), help="where a suite writes")
    add("--patience", type=float, help="leave out who takes more seconds for a quick question")
    add("--rebuild", action="store_true", help="build the files of peers again")
    add("--build", type=Path, help="CMake build directory whose nimblepy is measured")
    add("--json", type=Path, help="write all results there")
    add("--charts", type=Path, help="write SVG charts into this directory")
    add("--markdown", type=Path, help="write an overview as Markdown")
    add("--from-json", type=Path, help="no run: report on results of an earlier one")
    return parser.parse_args()


def chosen_peers(wanted: list[str]) -> list[str]:
    unknown = [name for name in wanted if name not in peers.NAMES]
    if unknown:
        sys.exit(f"bench: no peer {unknown[0]!r}: expected some of {', '.join(peers.NAMES)}")
    found = []
    for name in wanted:
        if name.startswith("nimblepy") or peers.installed_version(name) is not None:
            found.append(name)
        else:
            run.say(f"{name} is left out: pip install {peers.peer_class(name).package}")
    return found


def main() -> int:
    arguments = parse()
    if arguments.list:
        for workload in WORKLOADS:
            print(f"{workload.name:14} {workload.meaning}")
        print(f"peers: {', '.join(peers.NAMES)}")
        return 0
    build = arguments.build.resolve() if arguments.build else None
    if arguments.suite:
        return suite.go(
            arguments.suite,
            chosen_peers(arguments.peers),
            build,
            arguments.out,
            prepare=arguments.prepare,
            budget=arguments.budget,
            only=arguments.steps,
        )
    if arguments.from_json:
        # results of older runs lack the parts that came later
        found = run.Results({}).as_dict() | json.loads(arguments.from_json.read_text("utf-8"))
    else:
        unknown = [name for name in arguments.only if name not in BY_NAME]
        if unknown:
            sys.exit(f"bench: no workload {unknown[0]!r}: see --list")
        dataset = datasets.known(arguments.dataset, arguments.sf, arguments.rows)
        datasets.prepare(dataset)
        settings = Settings(
            dataset=dataset,
            rounds=arguments.rounds,
            threads=tuple(map(int, arguments.threads)),
            budget=arguments.budget,
            build=build,
            rebuild=arguments.rebuild,
            write_rounds=arguments.write_rounds,
            patience=arguments.patience,
        )
        workloads = [w for w in WORKLOADS if w.name in arguments.only]
        peer_names = chosen_peers(arguments.peers)
        found = run.run(settings, peer_names, workloads, set(arguments.parts)).as_dict()
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    report.show(found)
    if arguments.markdown:
        arguments.markdown.write_text(markdown.overview(found), "utf-8")
    if arguments.charts:
        for path in charts.draw(found, arguments.charts):
            run.say(f"wrote {path}")
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
