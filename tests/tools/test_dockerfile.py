"""The Dockerfile: what it copies is there, what it installs exists, and it does not run as root."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

pytestmark = pytest.mark.no_sanitizer


def instructions() -> list[tuple[str, str]]:
    """(name, arguments), with continued lines joined."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    return [(name, rest) for name, _, rest in (x.partition(" ") for x in joined.splitlines() if x)]


def test_two_stages_of_a_supported_python() -> None:
    images = [rest for name, rest in instructions() if name == "FROM"]
    assert images == ["python:3.12-slim AS build", "python:3.12-slim"]
    assert "Programming Language :: Python :: 3.12" in PROJECT["project"]["classifiers"]


def test_it_ends_as_a_user_with_the_command() -> None:
    found = dict(instructions())
    names = [name for name, _ in instructions()]
    assert found["USER"] == "nimble"
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN")
    assert json.loads(found["ENTRYPOINT"]) == ["nimble"]
    assert "nimble" in PROJECT["project"]["scripts"]


@pytest.mark.parametrize("extras", [None, "", "table", "all"])
def test_what_it_installs(extras: str | None, tmp_path: Path) -> None:
    run = next(rest for name, rest in instructions() if name == "RUN" and "pip install" in rest)
    default = next(rest for name, rest in instructions() if name == "ARG").partition("=")[2]
    assert set(default.split(",")) <= set(PROJECT["project"]["optional-dependencies"])
    wheel = tmp_path / "nimblepy-0.1.0-cp312-cp312-linux_x86_64.whl"
    wheel.touch()
    script = run.partition("target=/wheels")[2].replace("/wheels", str(tmp_path))
    chosen = default if extras is None else extras
    done = subprocess.run(
        ["sh", "-euc", "pip() { printf '%s\\n' \"$@\"; }\n" + script],
        env={"EXTRAS": chosen, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = f"{wheel}[{chosen}]" if chosen else str(wheel)
    assert done.stdout.splitlines() == ["install", "--no-cache-dir", expected]


def test_the_build_gets_every_file_that_it_reads() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    sent = {line[1:] for line in lines if line.startswith("!")}
    assert all((ROOT / name).exists() for name in sent)
    cmake = (ROOT / "CMakeLists.txt").read_text("utf-8")
    needed = {"CMakeLists.txt", "pyproject.toml", PROJECT["project"]["readme"], "LICENSE"}
    needed |= {pattern.partition("/")[0] for pattern in PROJECT["project"]["license-files"]}
    needed |= {
        package.partition("/")[0]
        for package in PROJECT["tool"]["scikit-build"]["wheel"]["packages"]
    }
    needed |= {name for name in ("cmake", "cpp", "schemas", "requirements") if f"{name}/" in cmake}
    assert needed <= sent
