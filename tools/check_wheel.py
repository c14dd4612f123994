"""What a built extension module must show: hardened, self-contained, nothing exported.

    python tools/check_wheel.py dist/*.whl build/release/_core*.so

Reads what binutils' `readelf` prints; ELF only. Prints a line a module with every fault of it, and
ends with 1 where there is one. Says, too, whether a module is marked for control-flow protection,
which is no fault: it is where the start files of the C library are, which Debian 12's are not.
Which systems a wheel runs on is `auditwheel show`'s to say.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

# What every glibc system with a C++ runtime has; all else is compiled in.
SYSTEM_LIBRARIES = {
    *("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"),
    *("libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"),
}

# What a module exports that is not an extension of Python.
ENTRIES = {"nimble_redis": ["RedisModule_OnLoad", "RedisModule_OnUnload"]}


def facts_of(module: Path) -> str:
    """Headers, segments, dynamic section, notes and dynamic symbols, as readelf prints them."""
    command = ["readelf", "--wide", "-h", "-l", "-d", "-n", "--dyn-syms", str(module)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def faults_of(facts: str, *entries: str) -> list[str]:
    """What is wrong with a module that must export ``entries``, and nothing else."""
    return [
        *_segment_faults(facts),
        *_dynamic_faults(facts),
        *_symbol_faults(facts, entries),
    ]


def _segment_faults(facts: str) -> Iterator[str]:
    if not re.search(r"^  GNU_RELRO ", facts, re.M):
        yield "no GNU_RELRO: tables of pointers stay writable"
    stack = re.search(r"^  GNU_STACK .*", facts, re.M)
    if stack is None or re.search(r" RWE ", stack[0]):
        yield "the stack is executable"
    if re.search(r"^  LOAD .* RWE ", facts, re.M):
        yield "memory that is writable and executable"


def _dynamic_faults(facts: str) -> Iterator[str]:
    if not re.search(r"\((FLAGS|FLAGS_1)\).*\bNOW\b|\(BIND_NOW\)", facts):
        yield "no BIND_NOW: the procedure linkage table stays writable"
    if "(TEXTREL)" in facts:
        yield "relocations in code"
    for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", facts):
        yield f"looks for libraries in {path}"
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", facts):
        if library not in SYSTEM_LIBRARIES:
            yield f"needs {library}"


def _symbol_faults(facts: str, entries: Sequence[str]) -> Iterator[str]:
    rows = re.findall(r"^ +\d+: \S+ +\d+ \w+ +\w+ +\w+ +(\w+) (\S+)", facts, re.M)
    wanted = {name.split("@")[0] for section, name in rows if section == "UND"}
    if "__stack_chk_fail" not in wanted:
        yield "no stack protector"
    if not any(re.fullmatch(r"__\w+_chk", name) for name in wanted):
        yield "no fortified calls"
    exported = {name.split("@")[0] for section, name in rows if section not in ("UND", "ABS")}
    for entry in entries:
        if entry not in exported:
            yield f"{entry} is not exported"
    for name in sorted(exported.difference(entries)):
        yield f"exports {name}"


def modules_of(path: Path, scratch: Path) -> list[Path]:
    """The extension modules of a wheel; a module is one by itself."""
    if path.suffix != ".whl":
        return [path]
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(".so")]
        return [Path(wheel.extract(name, scratch)) for name in names]


def main(paths: list[str]) -> int:
    failed = not paths
    for path in paths:
        with tempfile.TemporaryDirectory() as scratch:
            modules = modules_of(Path(path), Path(scratch))
            if not modules:
                print(f"{path}: no extension module")
                failed = True
            for module in modules:
                facts = facts_of(module)
                name = module.name.split(".")[0]
                faults = faults_of(facts, *ENTRIES.get(name, [f"PyInit_{name}"]))
                marks = re.search(r"x86 feature: (.*IBT, SHSTK)", facts)
                good = "hardened" + (f", marked {marks[1]}" if marks else "")
                print(f"{Path(path).name}: {module.name}: {'; '.join(faults) or good}")
                failed = failed or bool(faults)
    return int(failed)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
