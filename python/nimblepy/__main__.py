"""``python -m nimblepy`` is the ``nimble`` command."""

from __future__ import annotations

from nimblepy.cli.main import main

if __name__ == "__main__":
    main()
