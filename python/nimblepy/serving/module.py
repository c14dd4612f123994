"""The module for Redis and Valkey."""

from __future__ import annotations

from pathlib import Path

from nimblepy import _core


def module_path() -> str:
    """Returns the path of ``nimble_redis.so``, for ``loadmodule`` in the server's configuration.

    Raises:
        FileNotFoundError: this installation was built without the module.
    """
    # In a source tree, the extension is a link into the build tree.
    path = Path(_core.__file__).resolve().with_name("nimble_redis.so")
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist: this installation was built without the module for Redis"
        )
    return str(path)
