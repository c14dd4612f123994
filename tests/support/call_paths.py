"""The functions of nimblepy that a call runs before it first calls the core.

path = path_to_core(lambda: file.scan(filter="k > 3").to_table())
assert len(path.functions) <= 20
assert path.reentered == []
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import nimblepy

_ROOT = Path(nimblepy.__file__).parent
# Every module may use these at any time.
_SHARED = {"errors", "schema", "cached"}


@dataclass
class CallPath:
    """What ran before the first call of the core.

    Attributes:
        functions: different functions in the order of their first call, as ``module: name``.
        reentered: calls that entered a module again after it had returned. A public call from
            outside nimblepy does not count, nor a call into a module that is still running.
        reached_core: whether the core was called at all.
    """

    functions: list[str] = field(default_factory=list)
    reentered: list[str] = field(default_factory=list)
    reached_core: bool = False


def path_to_core(call: Callable[[], object]) -> CallPath:
    """Runs ``call`` and records the functions of nimblepy up to the first call of the core.

    Lazy imports should be done before: call the same function once with other arguments.
    """
    path = CallPath()
    running: list[str] = []  # modules of the running functions of nimblepy
    returned: set[str] = set()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if path.reached_core:
            return
        if event == "c_call":
            path.reached_core = _is_core(argument)
            return
        module = _module_of(frame)
        if module is None:
            return
        if event == "return":
            running.pop()
            if module not in running:
                returned.add(module)
        elif event == "call":
            name = f"{module}: {frame.f_code.co_qualname}"
            if name not in path.functions:
                path.functions.append(name)
            is_new = bool(running) and module not in running
            if is_new and module in returned and module not in _SHARED:
                path.reentered.append(name)
            running.append(module)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return path


def _module_of(frame: FrameType) -> str | None:
    """The module (the folder) of a function of nimblepy; ``None`` for all other code."""
    name = frame.f_code.co_name
    if name.startswith("<") and name != "<lambda>":  # a comprehension, or an import
        return None
    try:
        path = Path(frame.f_code.co_filename).relative_to(_ROOT)
    except ValueError:
        return None
    return path.parent.as_posix() if len(path.parts) > 1 else path.stem


def _is_core(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    modules = {getattr(function, "__module__", None), getattr(type(owner), "__module__", None)}
    return "nimblepy._core" in modules
