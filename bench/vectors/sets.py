"""Sets of vectors with held-out queries, and their true nearest rows.

Real sets are made of data that installed packages contain:

* ``sift128``: SIFT descriptors (opencv-python-headless) of the photographs in scikit-image.
* ``patches768``: 16 x 16 colour patches of the same photographs.
* ``text256``: embeddings (wordllama) of sentences in the docstrings of the installed packages.

Generated sets need numpy only: ``clusters128``, ``spectrum384``, and ``random128``, which has no
structure at all and is the hardest.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

K = 10
Matrix = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class Set:
    """Vectors, and queries that are not among them."""

    name: str
    metric: str
    rows: Matrix
    queries: Matrix
    bucket: np.ndarray[Any, np.dtype[np.int64]]
    tenant: np.ndarray[Any, np.dtype[np.int64]]


def clusters(rows: int, seed: int) -> Matrix:
    """Overlapping clusters of different sizes."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(400, 128))
    share = np.random.default_rng(2).dirichlet(np.full(400, 0.5))
    picked = centres[random.choice(400, rows, p=share)]
    return (picked + 0.9 * random.normal(size=(rows, 128))).astype(np.float32)


def spectrum(rows: int, seed: int) -> Matrix:
    """Directions of falling weight, as in embeddings of text, with topics in topics."""
    random, width = np.random.default_rng(seed), 384
    weights = np.arange(1, width + 1) ** -0.35
    fixed = np.random.default_rng(3)
    broad, fine = fixed.normal(size=(50, width)), fixed.normal(size=(2000, width))
    topic = random.integers(0, 2000, rows)
    x = (0.6 * broad[topic % 50] + 0.6 * fine[topic] + random.normal(size=(rows, width))) * weights
    turn, _ = np.linalg.qr(fixed.normal(size=(width, width)))
    return (x @ turn + 0.05).astype(np.float32)


def random_numbers(rows: int, seed: int) -> Matrix:
    return np.random.default_rng(seed).normal(size=(rows, 128)).astype(np.float32)


def _photographs() -> Iterator[Any]:
    import cv2
    import skimage

    folder = Path(skimage.__file__).parent / "data"
    for path in sorted([*folder.glob("*.png"), *folder.glob("*.jpg")]):
        image = cv2.imread(str(path))
        if image is not None and min(image.shape[:2]) >= 64:
            yield image


def _distinct(x: Any, rows: int, seed: int) -> Matrix:
    """Returns at most `rows` different rows in random order."""
    x = np.ascontiguousarray(x[np.random.default_rng(seed).permutation(len(x))])
    first: dict[bytes, int] = {}
    for i, row in enumerate(x):
        if len(first) == rows:
            break
        first.setdefault(row.tobytes(), i)
    return x[list(first.values())].astype(np.float32)


def sift(rows: int, seed: int) -> Matrix:
    import cv2

    finder = cv2.SIFT_create(contrastThreshold=0.005, edgeThreshold=30)
    found = []
    for image in _photographs():
        gray = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
        found.append(finder.detectAndCompute(gray, None)[1])
    return _distinct(np.concatenate([f for f in found if f is not None]), rows, seed)


def patches(rows: int, seed: int) -> Matrix:
    random = np.random.default_rng(1)
    found = []
    for image in _photographs():
        places = random.integers(0, np.array(image.shape[:2]) - 16, (4000, 2))
        found.append(np.stack([image[y : y + 16, x : x + 16].ravel() for y, x in places]))
    return _distinct(np.concatenate(found), rows, seed)


def sentences(most: int) -> list[str]:
    """Sentences of docstrings of the standard library and the installed packages."""
    found: dict[str, None] = {}
    folders = [Path(p) for p in sys.path if p.endswith("site-packages")]
    for folder in [Path(re.__file__).parent.parent, *folders]:
        for path in sorted(folder.rglob("*.py")):
            text = path.read_text(encoding="utf-8", errors="ignore")[:400_000]
            for doc in re.findall(r'"""(.*?)"""', text, re.DOTALL):
                for sentence in re.split(r"(?<=[.!?])\s+|\n\s*\n", doc):
                    words = sentence.split()
                    if 5 <= len(words) <= 50:
                        found[" ".join(words)] = None
            if len(found) >= most:
                return list(found)
    return list(found)


def text(rows: int, seed: int) -> Matrix:
    import wordllama

    # The wheel has the tokenizer in a folder where load() does not look by default.
    folder = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    said = sentences(2 * rows)
    parts = [model.embed(said[i : i + 1000]) for i in range(0, len(said), 1000)]
    return _distinct(np.concatenate(parts), rows, seed)


SETS: dict[str, tuple[str, Callable[[int, int], Matrix]]] = {
    "sift128": ("l2", sift),
    "text256": ("cosine", text),
    "patches768": ("l2", patches),
    "clusters128": ("l2", clusters),
    "spectrum384": ("cosine", spectrum),
    "random128": ("l2", random_numbers),
}


def make_set(name: str, rows: int, queries: int, seed: int = 5) -> Set:
    metric, make = SETS[name]
    x = make(rows + queries, seed)
    rows = len(x) - queries
    random = np.random.default_rng(6)
    tenant = np.sort(np.minimum(random.zipf(1.3, rows) - 1, 99))
    return Set(name, metric, x[:rows], x[rows:], random.integers(0, 100, rows), tenant)


def normalized(x: Matrix) -> Any:
    y = x.astype(np.float64)
    return y / np.linalg.norm(y, axis=1)[:, None]


def truth(data: Set, allowed: Any = None) -> list[set[int]]:
    """The numbers of the nearest rows of each query."""
    rows = np.arange(len(data.rows)) if allowed is None else np.flatnonzero(allowed)
    x, queries = data.rows[rows].astype(np.float64), data.queries.astype(np.float64)
    if data.metric == "cosine":
        x = normalized(data.rows[rows])
    lengths = (x**2).sum(axis=1)[None]
    out = []
    for i in range(0, len(queries), 100):
        d = lengths - 2 * queries[i : i + 100] @ x.T
        out += [set(rows[np.argpartition(line, K)[:K]].tolist()) for line in d]
    return out


def as_table(data: Set) -> pa.Table:
    column = pa.FixedSizeListArray.from_arrays(pa.array(data.rows.ravel()), data.rows.shape[1])
    number = np.arange(len(data.rows))
    return pa.table({"tenant": data.tenant, "id": number, "bucket": data.bucket, "v": column})
