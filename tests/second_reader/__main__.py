"""The second reader as a command: exit status 1 if a file breaks a rule of the format.

PYTHONPATH=tests python -m second_reader FILE ...
"""

from __future__ import annotations

import sys

from nimblepy.errors import NimbleError
from second_reader.walk import verify_file

USAGE = """usage: PYTHONPATH=tests python -m second_reader FILE ...

Reads files without the core, by the docs of the format alone, and checks every byte."""


def main(paths: list[str]) -> int:
    wants_help = bool({"-h", "--help"} & set(paths))
    if wants_help or not paths:
        print(USAGE, file=sys.stdout if wants_help else sys.stderr)
        return 0 if wants_help else 2
    failed = False
    for path in paths:
        try:
            report = verify_file(path)
        except (NimbleError, OSError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            failed = True
            continue
        print(f"{path}\n{report}")
        failed |= not report.ok
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
