"""The runner of the micro-benchmarks: what it reads and what it calls worse."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from bench.micro import __main__ as micro

pytestmark = pytest.mark.sanitizer

ROOT = Path(__file__).resolve().parents[2]


def test_the_listing_of_kernels_is_read() -> None:
    found = micro.listed("key.seek key counted\nmemory.copy byte timed\n")
    assert found == {"key.seek": ("key", True), "memory.copy": ("byte", False)}


def test_callgrinds_count_is_found() -> None:
    assert micro.collected("==1== Events    : Ir\n==1== Collected : 1124155\n") == 1_124_155
    with pytest.raises(ValueError, match="no count"):
        micro.collected("==1== no such thing")


def test_more_instructions_than_the_baseline_allows_are_reported() -> None:
    baseline = {"a": 100.0, "b": 100.0}
    assert micro.worse({"a": 102.0, "b": 90.0, "new": 5.0}, baseline) == []
    assert micro.worse({"a": 104.0}, baseline) == ["a: 104 instructions, +4.0%"]


def test_the_baseline_names_kernels_that_exist() -> None:
    baseline = json.loads(micro.BASELINE.read_text("utf-8"))["instructions"]
    sources = "".join(p.read_text("utf-8") for p in (ROOT / "bench" / "micro").glob("*.cc"))
    for name in baseline:
        last = name.split(".")[-1]
        assert f'"{last}' in sources or f'"{name}"' in sources or last.startswith("w"), name


@pytest.mark.skipif(not shutil.which("valgrind"), reason="needs valgrind")
@pytest.mark.no_sanitizer
def test_a_kernel_is_counted() -> None:
    programs = sorted(ROOT.glob("build/*/bench/micro/nimble_micro"))
    if not programs:
        pytest.skip("nimble_micro is not built: ./dev micro")
    listing = subprocess.run([programs[0], "--list"], capture_output=True, text=True, check=True)
    assert micro.listed(listing.stdout)["hash.key8"] == ("key", True)
    assert micro.count(programs[0], "hash.key8") > 1
