"""The command ``nimble``."""

from nimblepy.cli.main import main

__all__ = ["main"]
