"""Generated sets of vectors with queries, and their true nearest rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

K = 10
QUERIES = 100
Matrix = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class Set:
    """Vectors that were generated, with queries that are not among them."""

    name: str
    metric: str
    rows: Matrix
    queries: Matrix
    bucket: np.ndarray[Any, np.dtype[np.int64]]
    tenant: np.ndarray[Any, np.dtype[np.int64]]


def clusters(rows: int, width: int, seed: int) -> Matrix:
    """Overlapping clusters of different sizes."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(400, width))
    share = np.random.default_rng(2).dirichlet(np.full(400, 0.5))
    picked = centres[random.choice(400, rows, p=share)]
    return (picked + 0.9 * random.normal(size=(rows, width))).astype(np.float32)


def spectrum(rows: int, width: int, seed: int) -> Matrix:
    """Directions of falling weight, as in embeddings of text, with topics in topics."""
    random = np.random.default_rng(seed)
    weights = np.arange(1, width + 1) ** -0.35
    fixed = np.random.default_rng(3)
    broad, fine = fixed.normal(size=(50, width)), fixed.normal(size=(2000, width))
    topic = random.integers(0, 2000, rows)
    x = (0.6 * broad[topic % 50] + 0.6 * fine[topic] + random.normal(size=(rows, width))) * weights
    turn, _ = np.linalg.qr(fixed.normal(size=(width, width)))
    return (x @ turn + 0.05).astype(np.float32)


def make_sets(rows: int) -> list[Set]:
    out = []
    for name, metric, width, make in (
        ("clusters128", "l2", 128, clusters),
        ("spectrum384", "cosine", 384, spectrum),
    ):
        x = make(rows + QUERIES, width, 5)
        random = np.random.default_rng(6)
        tenant = np.sort(np.minimum(random.zipf(1.3, rows) - 1, 99))
        out.append(Set(name, metric, x[:rows], x[rows:], random.integers(0, 100, rows), tenant))
    return out


def truth(data: Set, allowed: Any = None) -> list[set[int]]:
    rows = np.arange(len(data.rows)) if allowed is None else np.flatnonzero(allowed)
    x, q = data.rows[rows].astype(np.float64), data.queries.astype(np.float64)
    if data.metric == "cosine":
        x /= np.linalg.norm(x, axis=1)[:, None]
    d = (x**2).sum(axis=1)[None] - 2 * q @ x.T
    return [set(rows[np.argpartition(line, K)[:K]].tolist()) for line in d]


def as_table(data: Set) -> pa.Table:
    column = pa.FixedSizeListArray.from_arrays(pa.array(data.rows.ravel()), data.rows.shape[1])
    number = np.arange(len(data.rows))
    return pa.table({"tenant": data.tenant, "id": number, "bucket": data.bucket, "v": column})
