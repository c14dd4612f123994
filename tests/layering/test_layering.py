"""Rooms stand on lower rooms only, and no files form a cycle.

A room is a folder of one idea (docs/internals/architecture.md).  Every `#include` and `import`
counts, in sources and in headers, under TYPE_CHECKING and inside functions.  Each rule is shown to
be able to fail.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CPP = ROOT / "cpp" / "nimble"
PYTHON = ROOT / "python" / "nimblepy"

# The rooms that each room stands on.  It may also use what those stand on.
CPP_STANDS_ON: dict[str, set[str]] = {
    "base": set(),
    "memory": {"base"},
    "threads": {"base"},
    "io": {"memory", "threads"},
    "types": {"memory", "threads"},
    "key": {"types"},
    "encoding/core": {"types"},
    "encoding/blocks": {"encoding/core"},
    "encoding/dictionaries": {"encoding/blocks"},
    "encoding/ints": {"encoding/dictionaries"},
    "encoding/floats": {"encoding/ints"},
    "encoding/bools": {"encoding/blocks"},
    "encoding/strings": {"encoding/blocks"},
    "encoding/symbols": {"encoding/strings"},
    "encoding/zstd": {"encoding/blocks"},
    "encoding/choose": {
        "encoding/floats",
        "encoding/bools",
        "encoding/symbols",
        "encoding/zstd",
    },
    "format": {"io", "key"},
    "key_chunk": {"key"},
    "index": {"format", "key_chunk"},
    "index/vector": {"index"},
    "column": {"encoding/choose"},
    "parquet": {"column", "io"},
    "open": {"index/vector", "column"},
    "stripe": {"column", "open"},
    "cursor": {"stripe"},
    "lookup": {"cursor"},
    "locate": {"lookup"},
    "asof": {"lookup"},
    "scan": {"stripe"},
    "scan/nearest": {"scan"},
    "reader": {"asof", "scan/nearest"},
    "write": {"reader"},
    "maintain": {"write"},
    "serve/snapshot": {"locate", "reader"},
    "serve/batch": {"serve/snapshot"},
    "serve": {"serve/batch"},
    "serve/module": {"serve"},
    "bindings/values": {"maintain"},
    "bindings": {"bindings/values", "locate", "parquet", "serve"},
}
# Headers of other projects that some rooms keep to themselves.
CPP_RESERVED = {
    re.compile(r"pybind11/|Python\.h$"): {"bindings", "bindings/values"},
    re.compile(r"zstd\.h$|zstd_errors\.h$"): {"encoding/zstd"},
    re.compile(r"xxh(ash|3)"): {"base"},
    re.compile(r"_generated\.h$|flatbuffers/"): {
        "format",
        "index",
        "index/vector",
        "lookup",
        "scan",
        "write",
        "maintain",
        "serve/snapshot",
        "serve/batch",
    },
}

PYTHON_STANDS_ON: dict[str, set[str]] = {
    "errors": set(),
    "cached": set(),
    "schema": {"errors", "cached"},
    "_core": {"errors"},
    "duck": {"schema"},
    "expr": {"duck", "_core"},
    "rows": {"expr"},
    "io": {"rows"},
    "input": {"io"},
    "join": {"input"},  # joins anything that has rows; its method is one of files and datasets
    "file": {"join"},
    "files": {"file"},
    "foreign": {"files"},
    "advise": {"files"},
    "table/base": {"foreign"},
    "table/otree": {"table/base"},
    "table/iceberg": {"table/otree"},
    "table/reading": {"table/iceberg"},
    "table/delta": {"table/reading"},
    "table/writing": {"table/delta"},
    "table/changing": {"table/writing"},
    "table/upkeep": {"table/changing"},
    "table/claims": {"table/upkeep"},
    "table": {"table/claims"},
    "serving": {"table"},
    "interop": {"files", "table", "serving"},
    "feast": {"serving"},
    "mcp": {"interop", "table"},
    "spark/base": {"table"},
    "spark/reading": {"spark/base"},
    "spark/writing": {"spark/base"},
    "spark/joins": {"spark/reading"},
    "spark/optimizer": {"spark/joins"},
    "spark": {"spark/optimizer", "spark/writing"},
    "telemetry": {"table"},
    "nimblepy": {
        "advise",
        "foreign",
        "interop",
        "serving",
        "table",
    },  # __init__.py, which gathers the public names
    "cli": {"mcp", "nimblepy"},
    "__main__": {"cli"},
}
PYTHON_RESERVED = {
    "pyiceberg": {"table/iceberg"},
    "pyspark": {
        "spark",
        "spark/base",
        "spark/reading",
        "spark/writing",
        "spark/joins",
        "spark/optimizer",
    },
    "typer": {"cli"},
    "feast": {"feast"},
    "mcp": {"mcp"},
}
# Underscore names that are public all the same.
NOT_PRIVATE = {"_core", "_asdict", "_fields", "_make", "_replace"}
# What the classes of handles share: names without an underscore are for users.
NOT_PRIVATE |= {"_current", "_keep", "_position", "_release", "_replace_position"}
# Of PySpark, which has no other way to ask.
NOT_PRIVATE |= {"_child", "_explain_string", "_gateway", "_jdf", "_jsparkSession", "_judf", "_jvm"}
NOT_PRIVATE |= {"_parse_datatype_json_string", "_plan", "_root_plan_id"}


def all_below(stands_on: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """For each room the rooms that it may use besides itself."""
    below: dict[str, set[str]] = {}

    def of(room: str, above: tuple[str, ...]) -> set[str]:
        assert room not in above, f"rooms stand on each other: {above}"
        if room not in below:
            found = {d for lower in stands_on[room] for d in of(lower, (*above, room))}
            below[room] = found | stands_on[room]
        return below[room]

    for room in stands_on:
        of(room, ())
    return below


CPP_BELOW = all_below(CPP_STANDS_ON)
PYTHON_BELOW = all_below(PYTHON_STANDS_ON)


def cycles(uses: Mapping[str, Iterable[str]]) -> set[str]:
    """The nodes from which a path of uses leads back to them."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = list(uses.get(start, ()))
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += uses.get(node, ())
        return seen

    return {node for node in uses if node in reached(node)}


# ---- C++ ----


@cache
def cpp_files() -> dict[str, str]:
    """Path below cpp/nimble -> text, of every header and source."""
    paths = sorted(p for p in CPP.rglob("*") if p.suffix in {".h", ".cc", ".cpp"})
    return {p.relative_to(CPP).as_posix(): p.read_text("utf-8") for p in paths}


def room_of(path: str) -> str:
    return path.rpartition("/")[0]


def includes(text: str) -> Iterator[tuple[str, str]]:
    """(opening character, target) of every include."""
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', text, re.MULTILINE):
        yield match[1], match[2]


def cpp_upward(path: str, text: str) -> set[tuple[str, str]]:
    """(path, room) of every room that the file includes and may not."""
    room = room_of(path)
    found = set()
    for _, target in includes(text):
        if target.startswith("nimble/"):
            other = room_of(target.removeprefix("nimble/"))
            if other not in CPP_BELOW[room] | {room}:
                found.add((path, other))
    return found


def cpp_manners(path: str, text: str) -> list[str]:
    """Headers of others that the room may not include, and paths that do not start at the root."""
    problems = []
    for quote, target in includes(text):
        for pattern, rooms in CPP_RESERVED.items():
            if pattern.search(target) and room_of(path) not in rooms:
                problems.append(f"{path} includes {target}, which only {sorted(rooms)} may")
        if quote == '"' and not target.startswith("nimble/") and "_generated.h" not in target:
            problems.append(f'{path} includes {target}: write it from the root, "nimble/room/..."')
    return problems


def cpp_node(path: str, headers: set[str]) -> str:
    """The unit of a file: x.h, x.cc and, if it has no header of its own, x_part.cc."""
    stem = path.rpartition(".")[0]
    parts = stem
    while parts:
        if parts in headers:
            return parts
        parts = parts.rpartition("_")[0]
    return stem


def cpp_uses(files: Mapping[str, str]) -> dict[str, set[str]]:
    headers = {p.removesuffix(".h") for p in files if p.endswith(".h")}
    uses: dict[str, set[str]] = {}
    for path, text in files.items():
        node = cpp_node(path, headers)
        targets = {t for _, t in includes(text) if t.startswith("nimble/")}
        others = {cpp_node(t.removeprefix("nimble/"), headers) for t in targets}
        uses.setdefault(node, set()).update(others - {node})
    return uses


def test_cpp_files_lie_in_rooms() -> None:
    rooms = {room_of(path) for path in cpp_files()}
    assert rooms == set(CPP_STANDS_ON)


def test_cpp_includes_point_down() -> None:
    files = cpp_files().items()
    assert {pair for path, text in files for pair in cpp_upward(path, text)} == set()


def test_cpp_includes_of_others_stay_in_their_rooms() -> None:
    assert [p for path, text in cpp_files().items() for p in cpp_manners(path, text)] == []


def test_cpp_files_form_no_cycle() -> None:
    assert cycles(cpp_uses(cpp_files())) == set()


# ---- Python ----


class Module:
    """A module of nimblepy, by its dotted name."""

    def __init__(self, name: str, text: str, *, is_package: bool = False) -> None:
        self.name = name
        self.tree = ast.parse(text)
        self._package = name if is_package else name.rpartition(".")[0]

    @property
    def room(self) -> str:
        return python_room(self.name)

    def imports(self) -> Iterator[tuple[str, str | None, str]]:
        """(module, name or None, local name) of every import."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, None, alias.asname or alias.name
            elif isinstance(node, ast.ImportFrom):
                parts = self._package.split(".")
                parts = parts[: len(parts) - node.level + 1] if node.level else []
                base = ".".join([*parts, *([node.module] if node.module else [])])
                for alias in node.names:
                    yield base, alias.name, alias.asname or alias.name

    def used_modules(self, known: Iterable[str]) -> set[str]:
        """Modules that are imported, absolute; a name that is a module stands for itself."""
        found = set()
        for base, name, _ in self.imports():
            submodule = f"{base}.{name}"
            found.add(submodule if submodule in known else base)
        return found

    def foreign_private(self) -> set[str]:
        """Underscore names of other modules of nimblepy that this one uses."""
        own = self._own_names()
        outside = {
            local.split(".")[0]
            for base, _, local in self.imports()
            if base.split(".")[0] != "nimblepy"
        }
        found = {
            name
            for base, name, _ in self.imports()
            if name and base.split(".")[0] == "nimblepy" and is_private(name)
        }
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and is_private(node.attr):
                owner = node.value
                while isinstance(owner, ast.Attribute):
                    owner = owner.value
                if isinstance(owner, ast.Name) and owner.id in outside:
                    continue
                if node.attr not in own:
                    found.add(node.attr)
        return found

    def private_of(self, project: str) -> set[str]:
        """Underscore names of another project that this module imports, or uses through imports."""
        names = {local for base, _, local in self.imports() if base.split(".")[0] == project}
        found = {
            name
            for base, name, _ in self.imports()
            if name and base.split(".")[0] == project and is_private(name)
        }
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and is_private(node.attr):
                owner = node.value
                while isinstance(owner, ast.Attribute):
                    owner = owner.value
                if isinstance(owner, ast.Name) and owner.id in names:
                    found.add(node.attr)
        return found

    def _own_names(self) -> set[str]:
        """Names that are defined here: functions, classes, variables, fields, attributes."""
        own = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                own.add(node.value)  # __slots__, object.__setattr__(self, "_name", value)
        return own


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NOT_PRIVATE


def python_room(module: str) -> str:
    """The folder of a module, or the module itself where it lies in none."""
    parts = module.split(".")
    inner = "/".join(parts[1:3])
    if len(parts) > 2 and inner in PYTHON_STANDS_ON:
        return inner
    return parts[1] if len(parts) > 1 else parts[0]


@cache
def python_modules() -> list[Module]:
    modules = []
    for path in sorted(p for p in PYTHON.rglob("*") if p.suffix in {".py", ".pyi"}):
        parts = ["nimblepy", *path.relative_to(PYTHON).with_suffix("").parts]
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules.append(Module(name, path.read_text("utf-8"), is_package=is_package))
    return modules


def python_upward(module: Module, known: Iterable[str]) -> set[tuple[str, str]]:
    """(module, room or other project) of everything that the module imports and may not."""
    found = set()
    for used in module.used_modules(known):
        root = used.split(".")[0]
        if root in PYTHON_RESERVED and module.room not in PYTHON_RESERVED[root]:
            found.add((module.name, root))
        if root == "nimblepy":
            other = python_room(used)
            if other not in PYTHON_BELOW[module.room] | {module.room}:
                found.add((module.name, other))
    return found


def python_uses(modules: Iterable[Module]) -> dict[str, set[str]]:
    modules = list(modules)
    known = {m.name for m in modules}
    return {m.name: (m.used_modules(known) & known) - {m.name} for m in modules}


def test_python_modules_lie_in_rooms() -> None:
    assert {m.room for m in python_modules()} <= set(PYTHON_STANDS_ON)


def test_python_imports_point_down() -> None:
    known = {m.name for m in python_modules()}
    assert {pair for m in python_modules() for pair in python_upward(m, known)} == set()


def test_python_modules_form_no_cycle() -> None:
    assert cycles(python_uses(python_modules())) == set()


def test_python_modules_use_no_underscore_names_of_others() -> None:
    found = {(m.name, name) for m in python_modules() for name in m.foreign_private()}
    assert found == set()


def test_only_one_module_uses_what_pyiceberg_does_not_publish() -> None:
    found = {m.name for m in python_modules() if m.private_of("pyiceberg")}
    assert found == {"nimblepy.table.iceberg.private"}


def test_python_modules_use_cached_properties_without_locks() -> None:
    """Those of functools can block a forked child: see nimblepy.cached."""
    found = {
        m.name
        for m in python_modules()
        if any((base, name) == ("functools", "cached_property") for base, name, _ in m.imports())
    }
    assert found == {"nimblepy.cached"}


def test_second_reader_shares_no_code_with_the_first() -> None:
    paths = sorted((ROOT / "tests" / "second_reader").glob("*.py"))
    assert paths
    imported = {
        base
        for path in paths
        for base, _, _ in Module(f"second_reader.{path.stem}", path.read_text("utf-8")).imports()
    }
    ours = {name for name in imported if name.split(".")[0] == "nimblepy"}
    assert ours == {"nimblepy.errors"}


# ---- the rules can fail ----


def test_the_sources_are_found() -> None:
    assert len(cpp_files()) > 100
    assert "nimblepy.errors" in {m.name for m in python_modules()}


def test_rooms_that_stand_on_each_other_are_refused() -> None:
    with pytest.raises(AssertionError, match="each other"):
        all_below({"a": {"b"}, "b": {"a"}})


@pytest.mark.parametrize(
    ("path", "include", "room"),
    [
        ("base/x.h", '"nimble/io/local_file.h"', "io"),
        ("io/x.cc", '"nimble/types/field.h"', "types"),
        ("key/x.h", '"nimble/encoding/core/encoding.h"', "encoding/core"),
        ("encoding/core/x.cc", '"nimble/encoding/ints/plain.h"', "encoding/ints"),
        ("encoding/strings/x.cc", '"nimble/encoding/ints/plain.h"', "encoding/ints"),
        ("index/x.cc", "<nimble/reader/file_reader.h>", "reader"),
        ("scan/x.cc", '"nimble/lookup/index_lookup.h"', "lookup"),
        ("reader/x.cc", '"nimble/write/options.h"', "write"),
        ("write/x.cc", '"nimble/helpers/x.h"', "helpers"),
    ],
)
def test_cpp_includes_that_point_up_are_found(path: str, include: str, room: str) -> None:
    assert cpp_upward(path, f"#pragma once\n  # include {include}\n") == {(path, room)}


def test_cpp_includes_that_point_down_are_accepted() -> None:
    text = '#include "nimble/types/field.h"\n#include <vector>\n#include "nimble/key/encoder.h"\n'
    assert cpp_upward("key/x.cc", text) == set()
    assert cpp_manners("key/x.cc", text) == []


@pytest.mark.parametrize(
    ("path", "include", "word"),
    [
        ("reader/x.cc", "<pybind11/pybind11.h>", "only"),
        ("encoding/core/x.cc", "<zstd.h>", "only"),
        ("io/x.cc", '"xxhash.h"', "only"),
        ("key/x.cc", '"file_generated.h"', "only"),
        ("base/x.cc", '"status.h"', "from the root"),
    ],
)
def test_cpp_includes_of_others_are_found(path: str, include: str, word: str) -> None:
    assert any(word in problem for problem in cpp_manners(path, f"#include {include}\n"))


def test_cpp_cycles_through_sources_are_found() -> None:
    files = {
        "base/a.h": "",
        "base/a_more.cc": '#include "nimble/base/b.h"',
        "base/b.h": "",
        "base/b.cc": '#include "nimble/base/a.h"',
        "base/c.cc": '#include "nimble/base/a.h"\n#include "nimble/base/c.h"',
        "base/c.h": "",
    }
    assert cycles(cpp_uses(files)) == {"base/a", "base/b"}


@pytest.mark.parametrize(
    ("module", "statement", "room"),
    [
        ("errors", "from nimblepy.schema.types import Schema", "schema"),
        ("schema.x", "from ..rows import keys", "rows"),
        ("schema.x", "from . import y\nfrom .. import _core", "_core"),
        ("expr.x", "from nimblepy.file.file import File", "file"),
        ("file.x", "import nimblepy", "nimblepy"),
        ("file.x", "def f():\n    from nimblepy.cli.main import main", "cli"),
        ("rows.x", "if TYPE_CHECKING:\n    from nimblepy.file.file import File", "file"),
        ("file.x", "import pyspark.sql", "pyspark"),
        ("interop.x", "from nimblepy.spark.reader import x", "spark"),
    ],
)
def test_python_imports_that_point_up_are_found(module: str, statement: str, room: str) -> None:
    known = {"nimblepy._core", "nimblepy.rows.keys", "nimblepy.file.file"}
    name = f"nimblepy.{module}"
    assert python_upward(Module(name, statement), known) == {(name, room)}


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("cli.x", "import nimblepy as nb\nimport typer"),
        ("rows.x", "from .. import _core, errors"),
        ("spark.x", "import pyspark\nfrom .y import z"),
        ("files.x", "from nimblepy.file.file import File"),
    ],
)
def test_python_imports_that_point_down_are_accepted(module: str, statement: str) -> None:
    known = {"nimblepy._core", "nimblepy.errors"}
    assert python_upward(Module(f"nimblepy.{module}", statement), known) == set()


def test_python_cycles_under_type_checking_are_found() -> None:
    modules = [
        Module("nimblepy.a.x", "if TYPE_CHECKING:\n    from nimblepy.a import y"),
        Module("nimblepy.a.y", "def f():\n    from .x import g"),
        Module("nimblepy.a.z", "from nimblepy.a.x import g"),
    ]
    assert cycles(python_uses(modules)) == {"nimblepy.a.x", "nimblepy.a.y"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from nimblepy.file.write import _specs", {"_specs"}),
        ("from nimblepy.file import write\nwrite._specs()", {"_specs"}),
        ("def f(file):\n    return file._handle", {"_handle"}),
        ("class A(B):\n    def f(self):\n        return self._of_b", {"_of_b"}),
        ("class A:\n    _x: int\n    def f(self, o):\n        return o._x", set()),
        ("class A:\n    def __init__(self):\n        self._x = 1", set()),
        ("import os\nos._exit(1)\nfrom nimblepy import _core", set()),
        ("def f(t):\n    return t._replace(a=1), t.__doc__", set()),
    ],
)
def test_underscore_names_of_others_are_found(text: str, names: set[str]) -> None:
    assert Module("nimblepy.a.x", text).foreign_private() == names
