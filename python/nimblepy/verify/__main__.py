"""`python -m nimblepy.verify FILE ...`: exit status 1 where a file breaks a rule of the format."""

from __future__ import annotations

import sys

from nimblepy.errors import NimbleError
from nimblepy.verify.walk import verify_file


def main(paths: list[str]) -> int:
    if not paths:
        print("usage: python -m nimblepy.verify FILE ...", file=sys.stderr)
        return 2
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
