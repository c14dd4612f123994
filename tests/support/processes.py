"""Child processes for tests of races, with everything imported before they are forked."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.pool import Pool

# A server without threads imports the library once. Its children share no handle, lock or
# connection with the tests, as spawned ones do, but they start at once.
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["pytest", "pyarrow", "pyiceberg.table", "nimblepy.table.catalog"])


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.update(variables)


def pool_of(size: int) -> Pool:
    """A pool of child processes with this process's environment variables."""
    return CHILDREN.Pool(size, _set_environment, (dict(os.environ),))
