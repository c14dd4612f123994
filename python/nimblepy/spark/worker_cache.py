"""Open datasets of a Python worker, kept between tasks.

Spark starts one worker process a core and reuses it; each keeps its own few datasets. Local files
are mapped, so that the workers of a host share their pages.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from nimblepy.files.dataset import Dataset
from nimblepy.spark.inputs import InputFiles

MOST = 8

_lock = threading.Lock()
_open: OrderedDict[tuple[str, str], Dataset] = OrderedDict()


def open_cached(files: InputFiles) -> Dataset:
    """The dataset of these very files, open already where an earlier task of the process had it."""
    with _lock:
        found = _open.get(files.key)
        if found is None:
            found = _open[files.key] = files.open()
            while len(_open) > MOST:
                _open.popitem(last=False)
        else:
            _open.move_to_end(files.key)
        return found
