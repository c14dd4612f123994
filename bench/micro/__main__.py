"""Counts the instructions of every kernel under callgrind and compares them with the baseline.

./dev micro                          builds, counts, compares; status 1 where one is worse
./dev micro --only key.,bloom.       kernels whose names begin so
./dev micro --update                 makes these counts the baseline (bench/results/micro.json)
./dev micro --time                   nanoseconds as well, memory bandwidth and latency among them

Instructions are the same on a busy machine and an idle one, so that a small regression shows.
They are not time: a cache miss costs none.  callgrind hides AVX-512, kernels run as AVX2 there.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BASELINE = ROOT / "bench" / "results" / "micro.json"
PROGRAM = ROOT / "build" / "micro" / "bench" / "micro" / "nimble_micro"
TOLERANCE = 0.03  # of a count: what another version of a system header may change
CALLS = 3


def names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.micro",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    add = parser.add_argument
    add("--program", type=Path, default=PROGRAM, help="the built nimble_micro")
    add("--only", type=names, default=[], help="prefixes of kernels (default: all)")
    add("--time", action="store_true", help="measure nanoseconds as well")
    add("--update", action="store_true", help="write the baseline instead of comparing")
    add("--baseline", type=Path, default=BASELINE, help="the counts that are compared with")
    return parser.parse_args(arguments)


def listed(text: str) -> dict[str, tuple[str, bool]]:
    """Kernel to what an element is and whether instructions are counted, from `--list`."""
    rows = (line.split() for line in text.splitlines())
    return {name: (element, how == "counted") for name, element, how in rows}


def collected(text: str) -> int:
    """Instructions that callgrind has seen, from what it writes to stderr."""
    found = re.search(r"Collected\s*:\s*(\d+)", text)
    if found is None:
        raise ValueError(f"callgrind says no count:\n{text[-2_000:]}")
    return int(found[1])


def count(program: Path, kernel: str) -> float:
    """Instructions an element."""
    with tempfile.TemporaryDirectory() as scratch:
        command = ["valgrind", "--tool=callgrind", "--toggle-collect=nimble_micro_measured"]
        command += [f"--callgrind-out-file={scratch}/out", str(program)]
        done = subprocess.run(
            [*command, "--count", kernel, str(CALLS)], capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise RuntimeError(f"{kernel}: {done.stderr[-2_000:]}")
    return collected(done.stderr) / int(done.stdout.split()[-1])


def timed(text: str) -> dict[str, float]:
    """Nanoseconds an element, from `--time`."""
    return {name: float(ns) for name, ns in (line.split() for line in text.splitlines())}


def worse(counts: dict[str, float], baseline: dict[str, float]) -> list[str]:
    """A line for each kernel that takes more instructions than the baseline allows."""
    return [
        f"{name}: {value:.4g} instructions, {value / baseline[name] - 1:+.1%}"
        for name, value in counts.items()
        if name in baseline and value > baseline[name] * (1 + TOLERANCE)
    ]


def show(
    kernels: dict[str, tuple[str, bool]],
    counts: dict[str, float],
    times: dict[str, float],
    baseline: dict[str, float],
) -> None:
    print(f"{'kernel':24} {'instructions':>14} {'to baseline':>12} {'ns':>10}")
    for name, (element, _) in kernels.items():
        if name not in counts and name not in times:
            continue
        shown = f"{counts[name]:.4g}" if name in counts else ""
        known = name in counts and name in baseline
        change = f"{counts[name] / baseline[name] - 1:+.1%}" if known else ""
        ns = f"{times[name]:.4g}" if name in times else ""
        print(f"{name:24} {shown:>14} {change:>12} {ns:>10}  a {element}")


def compiler(program: Path) -> str:
    """What built it, as the program itself says."""
    command = ["readelf", "-p", ".comment", str(program)]
    found = re.findall(r"\]\s+(.+)", subprocess.run(command, capture_output=True, text=True).stdout)
    return found[0].strip() if found else "unknown"


def main() -> int:
    arguments = parse()
    if not arguments.program.exists():
        sys.exit(f"bench.micro: no {arguments.program}: build it with ./dev micro")
    listing = subprocess.run([arguments.program, "--list"], capture_output=True, text=True)
    kernels = listed(listing.stdout)
    prefixes = tuple(arguments.only) or ("",)
    kernels = {name: how for name, how in kernels.items() if name.startswith(prefixes)}
    counts: dict[str, float] = {}
    if shutil.which("valgrind"):
        for name in (n for n, (_, counted) in kernels.items() if counted):
            counts[name] = count(arguments.program, name)
    else:
        print("bench.micro: no valgrind here: nothing is counted", file=sys.stderr)
    times: dict[str, float] = {}
    if arguments.time:
        command = [str(arguments.program), "--time", *arguments.only]
        times = timed(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    before = {}
    if arguments.baseline.exists():
        before = json.loads(arguments.baseline.read_text("utf-8"))
    baseline = before.get("instructions", {})
    show(kernels, counts, times, baseline)
    if arguments.update:
        merged = {
            "compiler": compiler(arguments.program),
            "instructions": {**baseline, **{n: round(v, 4) for n, v in counts.items()}},
            "nanoseconds": {**before.get("nanoseconds", {}), **times},
        }
        arguments.baseline.write_text(json.dumps(merged, indent=1) + "\n", "utf-8")
        return 0
    found = worse(counts, baseline)
    for line in found:
        print(f"bench.micro: worse: {line}", file=sys.stderr)
    if found and before.get("compiler") != compiler(arguments.program):
        print(f"bench.micro: the baseline is of {before.get('compiler')}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
