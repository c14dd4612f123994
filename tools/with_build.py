"""Run a module or script with the extension of another build tree.

    python tools/with_build.py BUILD_DIR -m pytest tests/format
    python tools/with_build.py BUILD_DIR bench/run.py --list

The import hook of an editable install outranks PYTHONPATH, so a sanitizer run
that only set PYTHONPATH would silently test the plain module.  This removes
the hook, serves `nimblepy._core` from BUILD_DIR, and checks that it did.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent


class CoreFinder:
    """Finds `nimblepy._core` in one build tree and nothing else."""

    def __init__(self, extension: Path) -> None:
        self.extension = extension

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if name != "nimblepy._core":
            return None
        return spec_from_file_location(name, self.extension)


def use_build(build_dir: Path) -> None:
    found = sorted(build_dir.glob("_core*.so"))
    if len(found) != 1:
        sys.exit(f"with_build: expected one _core*.so in {build_dir}, found {len(found)}")
    extension = found[0].resolve()
    others = [f for f in sys.meta_path if "ditable" not in f"{type(f).__module__} {type(f)} {f}"]
    sys.meta_path[:] = [CoreFinder(extension), *others]  # type: ignore[list-item]
    sys.path.insert(0, str(ROOT / "python"))
    core = importlib.import_module("nimblepy._core")
    if Path(core.__file__ or "").resolve() != extension:
        sys.exit(f"with_build: expected {extension}, but {core.__file__} was imported")


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    use_build(Path(sys.argv[1]))
    if sys.argv[2] == "-m":
        sys.argv[:] = sys.argv[3:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = sys.argv[2:]
        sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
