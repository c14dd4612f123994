"""Rows as datasets of PyTorch. Torch is optional and imported only here.

:class:`RowDataset` is asked for rows by their numbers, :class:`BlockDataset` gives all rows in
shuffled blocks. Both open their source again in each worker process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from nimblepy.errors import InvalidArgumentError, MissingExtraError
from nimblepy.files.resolve import Source, as_rows
from nimblepy.rows.arguments import Columns, at_least
from nimblepy.rows.as_numpy import numpy_columns

try:
    import torch
    from torch.utils.data import Dataset, IterableDataset, get_worker_info
except ImportError as error:
    raise MissingExtraError(
        'nimblepy.interop.torch needs PyTorch: pip install "nimblepy[torch]"'
    ) from error

Example: TypeAlias = dict[str, Any]


def tensors(table: pa.Table) -> Example:
    """Columns as tensors where torch has their type, else as numpy arrays or lists of text.

    Lists of one fixed size are tensors with one dimension more.
    """
    found: Example = {}
    for name, values in numpy_columns(table).items():
        if values.dtype.kind in "biuf":
            found[name] = torch.from_numpy(values if values.flags.writeable else values.copy())
        else:
            found[name] = values.tolist() if values.dtype == object else values
    return found


class RowDataset(Dataset[Any]):
    """A map-style dataset: examples by row number, for a ``DataLoader`` with any sampler.

    Args:
        source: a :class:`nimblepy.File`, a :class:`nimblepy.Dataset`, or the path or URI of one.
        columns: columns of an example; ``None`` is all.
        transform: applied to each example.

    Cost: a ``DataLoader`` asks for a whole batch at once, which is one ``take``.

    Example:
        >>> loader = DataLoader(RowDataset("train.nimble"), 256, shuffle=True)  # doctest: +SKIP
    """

    def __init__(
        self,
        source: Source,
        columns: Columns = None,
        *,
        transform: Callable[[Example], Any] | None = None,
    ) -> None:
        self._rows = as_rows(source)
        self._columns = columns
        self._transform = transform

    def __len__(self) -> int:
        return self._rows.num_rows

    def __getitem__(self, row: int) -> Any:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Any]:
        """The examples at these rows, by one read."""
        try:
            table = self._rows.take(rows, self._columns)
        except InvalidArgumentError as error:
            raise IndexError(str(error)) from error
        return _examples(tensors(table), len(rows), self._transform)


class BlockDataset(IterableDataset[Any]):
    """All rows once per epoch, block after block, both in random order if ``shuffle``.

    Blocks are runs of neighbouring rows, read whole, which costs about as much as a scan. Rows are
    mixed within ``mixed_blocks`` blocks at a time. Worker processes share the blocks among them,
    and so do the processes of a job: ``rank`` of ``world_size``.

    Args:
        source, columns, transform: as for :class:`RowDataset`.
        batch_rows: examples of a batch: tensors with so many rows are given, for a ``DataLoader``
            with ``batch_size=None``; ``None`` gives single examples.
        block_rows: rows of a block.
        mixed_blocks: blocks that are held, and mixed, at a time.
        seed: with the epoch (:meth:`set_epoch`) it settles the order.

    Cost: memory of ``mixed_blocks * block_rows`` rows per worker.
    """

    def __init__(
        self,
        source: Source,
        columns: Columns = None,
        *,
        batch_rows: int | None = None,
        shuffle: bool = True,
        block_rows: int = 4096,
        mixed_blocks: int = 16,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        transform: Callable[[Example], Any] | None = None,
    ) -> None:
        self._rows = as_rows(source)
        self._columns = columns
        self._batch_rows = None if batch_rows is None else at_least("batch_rows", batch_rows, 1)
        self._shuffle = shuffle
        self._block_rows = at_least("block_rows", block_rows, 1)
        self._mixed_blocks = at_least("mixed_blocks", mixed_blocks, 1)
        self._seed = seed
        self._world_size = at_least("world_size", world_size, 1)
        self._rank = at_least("rank", rank, 0)
        if self._rank >= self._world_size:
            raise InvalidArgumentError(f"rank: expected one below {world_size}, got {rank}")
        self._transform = transform
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Settles another order; to be called before the workers of that epoch start."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        share, shares = self._rank, self._world_size
        if worker is not None:
            share, shares = share * worker.num_workers + worker.id, shares * worker.num_workers
        generator = np.random.default_rng([self._seed, self._epoch])
        blocks = np.arange(-(-self._rows.num_rows // self._block_rows))
        if self._shuffle:
            generator.shuffle(blocks)  # alike in all workers, which then take their shares
        mine = blocks[share::shares]
        own = np.random.default_rng([self._seed, self._epoch, share])
        for at in range(0, len(mine), self._mixed_blocks):
            yield from self._mixed(mine[at : at + self._mixed_blocks], own)

    def _mixed(self, blocks: np.ndarray[Any, Any], generator: np.random.Generator) -> Iterator[Any]:
        begins = blocks * self._block_rows
        ends = np.minimum(begins + self._block_rows, self._rows.num_rows)
        rows = np.concatenate([np.arange(b, e) for b, e in zip(begins, ends, strict=True)])
        held = tensors(self._rows.take(rows, self._columns))
        order = generator.permutation(len(rows)) if self._shuffle else np.arange(len(rows))
        step = self._batch_rows or len(rows)
        for at in range(0, len(rows), step):
            picked = order[at : at + step]
            batch = {name: _picked(values, picked) for name, values in held.items()}
            if self._batch_rows is None:
                yield from _examples(batch, len(picked), self._transform)
            else:
                yield batch if self._transform is None else self._transform(batch)


def _picked(values: Any, rows: np.ndarray[Any, Any]) -> Any:
    if isinstance(values, list):
        return [values[row] for row in rows]
    return values[torch.from_numpy(rows)] if isinstance(values, torch.Tensor) else values[rows]


def _examples(
    columns: Example, count: int, transform: Callable[[Example], Any] | None
) -> list[Any]:
    examples = [{name: values[i] for name, values in columns.items()} for i in range(count)]
    return examples if transform is None else [transform(example) for example in examples]
