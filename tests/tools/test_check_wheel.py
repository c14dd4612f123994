"""tools/check_wheel.py finds what is missing in modules that the compiler at hand makes."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_wheel.py"
CC = shutil.which("cc") or shutil.which("gcc")

pytestmark = [
    pytest.mark.sanitizer,
    pytest.mark.skipif(
        sys.platform != "linux" or CC is None or shutil.which("readelf") is None,
        reason="needs a compiler and readelf",
    ),
]

SOURCE = """
#include <stdio.h>
#include <string.h>
void fill(char* out);
__attribute__((visibility("default"))) int PyInit_toy(int n, const char* text) {
  char buffer[64];
  strcpy(buffer, text);
  fill(buffer);
  return printf("%s %d", buffer, n);
}
HIDDEN void fill(char* out) { out[0] = 'a'; }
"""
HARDENED = [
    *("-O2", "-fPIC", "-shared", "-fstack-protector-strong", "-U_FORTIFY_SOURCE"),
    *("-D_FORTIFY_SOURCE=2", "-Wl,-z,now", "-Wl,-z,relro", "-Wl,-z,noexecstack"),
]
HIDDEN = '-DHIDDEN=__attribute__((visibility("hidden")))'


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(TOOL))


def compiled(directory: Path, *options: str) -> Path:
    (directory / "toy.c").write_text(SOURCE)
    module = directory / "toy.cpython-311-x86_64-linux-gnu.so"
    command = [str(CC), str(directory / "toy.c"), "-w", "-o", str(module), *options]
    subprocess.run(command, check=True)
    return module


def test_hardened_module_and_its_wheel_pass(
    tool: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = compiled(tmp_path, *HARDENED, HIDDEN)
    wheel = tmp_path / "toy-1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.write(module, f"toy/{module.name}")
        made.writestr("toy/__init__.py", "")
    assert tool["main"]([str(module), str(wheel)]) == 0, capsys.readouterr().out
    assert capsys.readouterr().out.count(": hardened") == 2


@pytest.mark.parametrize(
    ("option", "fault"),
    [
        ("-Wl,-z,norelro", "GNU_RELRO"),
        ("-Wl,-z,lazy", "BIND_NOW"),
        ("-Wl,-z,execstack", "stack is executable"),
        ("-fno-stack-protector", "stack protector"),
        ("-U_FORTIFY_SOURCE", "fortified"),
        ("-Wl,-rpath,/opt/lib", "libraries in /opt/lib"),
        ("-DHIDDEN=", "exports fill"),
        ("-DPyInit_toy=other", "PyInit_toy is not exported"),
        ("-Wl,--no-as-needed,-lresolv", "needs libresolv.so.2"),
    ],
)
def test_each_missing_protection_is_named(
    tool: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    fault: str,
) -> None:
    hidden = [] if option.startswith("-DHIDDEN") else [HIDDEN]
    module = compiled(tmp_path, *HARDENED, *hidden, option)
    assert tool["main"]([str(module)]) == 1
    assert fault in capsys.readouterr().out


def test_wheel_without_a_module_fails(tool: dict[str, Any], tmp_path: Path) -> None:
    wheel = tmp_path / "toy-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("toy/__init__.py", "")
    assert tool["main"]([str(wheel)]) == 1
    assert tool["main"]([]) == 1
