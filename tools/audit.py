"""Are there known vulnerabilities in what nimblepy needs at run time?

    python tools/audit.py [--service osv|pypi]

Installs the dependencies of pyproject.toml into an empty directory, as new as they come, and has
pip-audit (which must be installed) look each of them up. Ends with 0 only where every one was
looked up and none has an advisory; with 1 where one has; with 2 where one could not be looked up,
which pip-audit by itself passes over.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--service", choices=["osv", "pypi"], default="osv")
    service = parser.parse_args().service
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    with tempfile.TemporaryDirectory() as directory:
        install = ["pip", "install", "--quiet", "--target", directory, *wanted]
        subprocess.run([sys.executable, "-m", *install], check=True)
        audit = ["pip_audit", "--path", directory, "--format", "json", "--progress-spinner", "off"]
        done = subprocess.run(
            [sys.executable, "-m", *audit, "--vulnerability-service", service],
            capture_output=True,
            text=True,
            check=False,
        )
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError):
        lines = done.stderr.strip().splitlines() or ["pip-audit said nothing"]
        print(f"audit: nothing was looked up: {lines[-1]}", file=sys.stderr)
        return 2
    status, lines = judge(found)
    print("\n".join(lines))
    return status


def judge(dependencies: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """Exit status, and a line each, of what pip-audit found."""
    lines, skipped, vulnerable = [], 0, 0
    for found in dependencies:
        if "skip_reason" in found:
            skipped += 1
            lines.append(f"{found['name']}: NOT LOOKED UP: {found['skip_reason']}")
            continue
        ids = [v["id"] for v in found["vulns"]]
        vulnerable += bool(ids)
        lines.append(f"{found['name']} {found['version']}: {', '.join(ids) or 'nothing known'}")
    lines.append(
        f"{len(dependencies)} packages: {vulnerable} with advisories, {skipped} not looked up"
    )
    return (1 if vulnerable else 2 if skipped or not dependencies else 0), lines


if __name__ == "__main__":
    sys.exit(main())
