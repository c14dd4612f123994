"""Dependencies point down and files stay small; every rule is shown to be able to fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CPP = ROOT / "cpp" / "nimble"
PYTHON = ROOT / "python" / "nimblepy"

# What a C++ floor may include besides itself.  Siblings do not see each other.
_BELOW_FORMAT = {"base", "io", "types", "encoding", "key"}
CPP_MAY_INCLUDE: dict[str, set[str]] = {
    "base": set(),
    "io": {"base"},
    "types": {"base"},
    "encoding": {"base", "io", "types"},
    "key": {"base", "io", "types"},
    "format": _BELOW_FORMAT,
    "index": _BELOW_FORMAT | {"format"},
    "file": _BELOW_FORMAT | {"format", "index"},
    "bindings": _BELOW_FORMAT | {"format", "index", "file"},
}
# Headers of other projects that one floor keeps to itself.
CPP_RESERVED = {
    re.compile(r"pybind11/|Python\.h$"): {"bindings"},
    re.compile(r"zstd"): {"encoding"},
    re.compile(r"xxh(ash|3)"): {"base"},
    re.compile(r"_generated\.h$|flatbuffers/"): {"format", "index", "file"},
}

# Python modules by floor.  `predicate_bounds` stands with `predicate`; any other module not
# named here belongs to the file layer.
FILE_LAYER = 5
PYTHON_FLOOR = {
    "errors": 0,
    "types": 1,
    "tree_types": 1,
    "options": 2,
    "columns": 3,
    "expression": 3,
    "predicate": 3,
    "_core": 4,
    "join": 6,
    "table": 7,
    "dataset": 7,
    "conversion": 8,
    "interop": 8,
    "cli": 9,
    "__main__": 9,
    "spark": 10,
}
# `nimblepy` itself gathers the public names, so only floors that sit on the whole may import it.
TOP_IMPORTERS = 8
# The second reader of the format must not share code with the first.
VERIFY_MAY_IMPORT = {"errors", "verify"}
PYTHON_RESERVED = {"pyspark": "spark", "typer": "cli"}

CAPS = {".h": 200, ".cc": 450, ".cpp": 450, ".py": 400, ".pyi": 400}
TEST_CAP = 500
FORMAT_PAGE_CAP = 200


def family(module: str) -> str:
    """The name that places a module: itself, or what stands before its first underscore."""
    name = module.split(".")[0]
    stem = name.split("_")[0]
    return stem if name not in PYTHON_FLOOR and stem in PYTHON_FLOOR else name


def floor_of(module: str) -> int:
    return PYTHON_FLOOR.get(family(module), FILE_LAYER)


def cpp_problems(floor: str, text: str) -> list[str]:
    """What a file of `floor` with this text does against the rules."""
    problems = []
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', text, re.MULTILINE):
        quote, target = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        where = f"line {line}: {floor} includes {target}"
        for pattern, floors in CPP_RESERVED.items():
            if pattern.search(target) and floor not in floors:
                problems.append(f"{where}, which only {sorted(floors)} may")
        if target.startswith("nimble/"):
            other = target.split("/")[1]
            if other not in CPP_MAY_INCLUDE:
                problems.append(f"{where}: no such floor")
            elif other != floor and other not in CPP_MAY_INCLUDE[floor]:
                problems.append(f"{where}: {other} is not below {floor}")
        elif quote == '"' and not target.endswith("_generated.h"):
            problems.append(f'{where}: write it from the root, "nimble/<floor>/<file>"')
    return problems


def imported_modules(package: str, tree: ast.AST, known: set[str]) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted module) of every import, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join([*parts, base]) if base else ".".join(parts)
            for alias in node.names:
                submodule = f"{base}.{alias.name}"
                yield node.lineno, submodule if submodule in known else base


def python_problems(
    module: str, text: str, known: set[str], package: str = "nimblepy"
) -> list[str]:
    """What a module, named relative to nimblepy, does against the rules."""
    if module == "__init__":
        return []
    name = family(module)
    floor = floor_of(module)
    problems = []
    for line, target in imported_modules(package, ast.parse(text), known):
        root, *rest = target.split(".")
        where = f"line {line}: {module} imports {target}"
        if root in PYTHON_RESERVED and name != PYTHON_RESERVED[root]:
            problems.append(f"{where}, which only {PYTHON_RESERVED[root]} may")
        if root != "nimblepy":
            continue
        if not rest:
            if floor < TOP_IMPORTERS:
                problems.append(f"{where}: import the module that defines the name")
            continue
        other = rest[0]
        if name == "verify" and other not in VERIFY_MAY_IMPORT:
            problems.append(f"{where}: verify shares no code with the reader")
        if floor_of(other) > floor:
            problems.append(f"{where}: {other} is above {name}")
    return problems


def cap_of(path: Path) -> int | None:
    relative = path.relative_to(ROOT)
    if relative.parts[0] == "tests":
        return TEST_CAP if path.suffix in CAPS else None
    if relative.parts[:2] == ("docs", "format") and path.suffix == ".md":
        return FORMAT_PAGE_CAP
    return CAPS.get(path.suffix)


def cap_problem(path: Path, num_lines: int) -> str | None:
    cap = cap_of(path)
    if cap is None or num_lines <= cap:
        return None
    return f"{path.relative_to(ROOT)} has {num_lines} lines, its cap is {cap}: split it by idea"


def cpp_files() -> list[Path]:
    return sorted(p for p in CPP.rglob("*") if p.suffix in {".h", ".cc", ".cpp"})


def python_files() -> list[Path]:
    return sorted(p for p in PYTHON.rglob("*") if p.suffix in {".py", ".pyi"})


def module_name(path: Path) -> str:
    parts = list(path.relative_to(PYTHON).with_suffix("").parts)
    if len(parts) > 1 and parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def test_cpp_includes_point_down() -> None:
    problems = []
    for path in cpp_files():
        floor = path.relative_to(CPP).parts[0]
        if floor not in CPP_MAY_INCLUDE:
            problems.append(f"{path.relative_to(ROOT)}: {floor} is not a floor")
            continue
        found = cpp_problems(floor, path.read_text("utf-8"))
        problems += [f"{path.relative_to(ROOT)}: {p}" for p in found]
    assert not problems, "\n" + "\n".join(problems)


def test_python_imports_point_down() -> None:
    known = {f"nimblepy.{module_name(p)}" for p in python_files()} | {"nimblepy._core"}
    problems = []
    for path in python_files():
        package = ".".join(["nimblepy", *path.relative_to(PYTHON).parent.parts])
        found = python_problems(module_name(path), path.read_text("utf-8"), known, package)
        problems += [f"{path.relative_to(ROOT)}: {p}" for p in found]
    assert not problems, "\n" + "\n".join(problems)


def test_files_stay_below_their_caps() -> None:
    problems = []
    for folder in ("cpp", "python", "tests", "bench", "tools", "docs"):
        for path in sorted((ROOT / folder).rglob("*")):
            if "__pycache__" in path.parts or cap_of(path) is None:
                continue
            num_lines = len(path.read_text("utf-8").splitlines())
            if problem := cap_problem(path, num_lines):
                problems.append(problem)
    assert not problems, "\n" + "\n".join(problems)


def test_the_sources_are_found() -> None:
    assert len(cpp_files()) > 10
    assert "errors" in {module_name(p) for p in python_files()}


@pytest.mark.parametrize(
    ("floor", "include", "word"),
    [
        ("base", '"nimble/io/local_file.h"', "not below"),
        ("io", '"nimble/types/field.h"', "not below"),
        ("key", '"nimble/encoding/encoding.h"', "not below"),
        ("index", "<nimble/file/reader.h>", "not below"),
        ("index", '"nimble/bindings/errors.h"', "not below"),
        ("file", '"nimble/helpers/x.h"', "no such floor"),
        ("file", "<pybind11/pybind11.h>", "only"),
        ("file", "<zstd.h>", "only"),
        ("key", '"file_generated.h"', "only"),
        ("base", '"status.h"', "from the root"),
    ],
)
def test_cpp_checker_rejects(floor: str, include: str, word: str) -> None:
    (problem,) = cpp_problems(floor, f"#pragma once\n  # include {include}\n")
    assert "line 2" in problem
    assert word in problem


def test_cpp_checker_accepts_what_lies_below() -> None:
    text = '#include "nimble/types/field.h"\n#include <vector>\n#include "nimble/key/encoder.h"\n'
    assert cpp_problems("key", text) == []


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("errors", "from nimblepy.schema.types import Schema"),
        ("types", "from . import reader"),
        ("reader", "from .join import index_join"),
        ("predicate", "from nimblepy import _core"),
        ("predicate_bounds", "from nimblepy.file.file import File"),
        ("reader", "import nimblepy"),
        ("reader", "def f():\n    from nimblepy.cli.main import main"),
        ("verify", "from nimblepy import _core"),
        ("verify", "from nimblepy.file.file import File"),
        ("reader", "import pyspark.sql"),
        ("conversion", "from nimblepy.spark.reader import x"),
    ],
)
def test_python_checker_rejects(module: str, statement: str) -> None:
    known = {"nimblepy._core", "nimblepy.file.file", "nimblepy.schema.types"}
    assert python_problems(module, statement, known)


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("cli", "import nimblepy as nb"),
        ("reader", "from . import _core, errors"),
        ("spark.reader", "import pyspark"),
        ("cli_tables", "import typer"),
        ("columns", "from nimblepy.expr.nodes import Column"),
        ("join", "from nimblepy.file.file import File"),
    ],
)
def test_python_checker_accepts(module: str, statement: str) -> None:
    known = {"nimblepy._core", "nimblepy.errors"}
    assert python_problems(module, statement, known) == []


def test_cap_checker_rejects_one_line_too_many() -> None:
    assert cap_problem(CPP / "base" / "x.h", 200) is None
    assert "cap is 200" in (cap_problem(CPP / "base" / "x.h", 201) or "")
    assert cap_problem(ROOT / "tests" / "unit" / "x.py", 500) is None
