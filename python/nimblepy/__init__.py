"""Columnar files with built-in indexes: scans like Parquet, point lookups like a key-value store.

Names are loaded when they are first used (PEP 562). So ``import nimblepy`` takes a millisecond, and
a tool that only needs the option classes does not load the native core. ``__init__.pyi`` lists the
public names and their modules, for type checkers and for this file.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

__version__ = "0.1.0"


def _public_names() -> dict[str, str]:
    """Returns the module that defines each public name, by name."""
    with open(__file__ + "i", encoding="utf-8") as stub:
        lines = [line.split() for line in stub if line.startswith("from ")]
    return {name: module for _, module, _, name, *_ in lines}


_HOMES = _public_names()
__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'nimblepy' has no attribute {name!r}")
    try:
        value: object = getattr(import_module(home), name)
    except ImportError as error:
        if find_spec("nimblepy._core") is not None:
            raise
        raise ImportError(
            f"nimblepy.{name} needs the compiled core nimblepy._core, which is not installed here. "
            "Run `pip install .` in the source tree (a C++ compiler is enough), or install a wheel."
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
