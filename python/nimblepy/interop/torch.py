"""PyTorch datasets of rows. Torch is optional and is imported only in this module.

:class:`RowDataset` returns rows by number. :class:`BlockDataset` returns all rows in shuffled
blocks. Both open their source again in each worker process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from nimblepy.errors import InvalidArgumentError, MissingExtraError
from nimblepy.expr.filter import Parameters, parse_filter, with_params
from nimblepy.files.resolve import Source, as_rows
from nimblepy.join.joinable import Joinable, SourceHandle
from nimblepy.rows.arguments import Columns, at_least, column_names
from nimblepy.rows.rows import source_of
from nimblepy.rows.source import Filter
from nimblepy.schema.columns import resolve_column
from nimblepy.schema.kinds import family, value_type
from nimblepy.schema.plain import plain_array, plain_type

try:
    import torch
    from torch.utils.data import Dataset, IterableDataset, get_worker_info
except ImportError as error:
    raise MissingExtraError(
        'nimblepy.interop.torch needs PyTorch: pip install "nimblepy[torch]"'
    ) from error

Example: TypeAlias = dict[str, Any]


def nullable_columns(rows: Joinable, columns: Columns) -> frozenset[str]:
    """Returns the names of the columns with a null in any row.

    Only checks columns whose tensors cannot represent null. The result lets a caller use the same
    dtype for all batches of a column.

    Raises:
        InvalidArgumentError: a column does not exist.

    Cost: reads zone maps of these columns. Columns without nulls are not read.
    """
    names = column_names(columns)
    fields = rows.scan(names).schema
    nullable: set[str] = set()
    for field, name in zip(fields, fields.names if names is None else names, strict=True):
        kind = value_type(field.type)
        keeps_nulls = pt.is_floating(kind) or family(kind) in ("text", "none")
        if not field.nullable or (keeps_nulls and not pt.is_fixed_size_list(kind)):
            continue
        path = resolve_column(rows.schema, name).path
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in path)
        if rows.head(1, (), filter=f"{quoted} IS NULL").num_rows:
            nullable.add(field.name)
    return frozenset(nullable)


def pinned(rows: Joinable) -> Joinable:
    """Returns a handle that stays at a table's snapshot, since examples are found by row number."""
    return SourceHandle(source_of(rows)) if hasattr(rows, "snapshot") else rows


def passing_numbers(
    rows: Joinable, filter: Filter, params: Parameters
) -> np.ndarray[Any, Any] | None:
    """Returns the numbers of the rows that pass a filter, ascending; ``None`` without a filter.

    Cost: reads the columns of the filter.
    """
    bound_filter = with_params(filter, params)
    if bound_filter is None:
        return None
    parsed = parse_filter(bound_filter, rows.schema)
    names = [(name,) for name in dict.fromkeys(path[0] for path in parsed.columns)]
    numbers, at = [np.empty(0, np.int64)], 0
    for batch in rows.scan(names or None):
        mask = parsed.mask(batch).to_numpy(zero_copy_only=False)
        numbers.append(at + np.flatnonzero(mask))
        at += batch.num_rows
    return np.concatenate(numbers)


def collate(examples: Sequence[Example]) -> Example:
    """Combines examples into a batch. A ``collate_fn`` of a ``DataLoader`` for all column types.

    Stacks tensors of the same shape. Other values become lists: text, nulls, and tensors of
    different shapes. torch's default function rejects nulls and different shapes.
    """
    batch: Example = {}
    for name in examples[0] if examples else ():
        values = [example[name] for example in examples]
        shapes = {value.shape if isinstance(value, torch.Tensor) else None for value in values}
        batch[name] = torch.stack(values) if len(shapes) == 1 and None not in shapes else values
    return batch


def tensors(table: pa.Table, nullable: Collection[str] = ()) -> Example:
    """Converts columns to tensors, or to lists if torch does not have their type.

    Numbers, booleans and times are tensors of one dimension. Integers, booleans and times of
    columns in ``nullable`` are float64 in every batch, with NaN for null. Times are integers in the
    column's unit, since 1970. Lists of one fixed size are tensors with one more dimension. Other
    lists of numbers become a list of tensors. Text and bytes are lists, with ``None`` for null.
    """
    example: Example = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        try:
            example[name] = _values(array, name in nullable)
        except pa.ArrowException as error:
            raise InvalidArgumentError(f"column {name!r} is {array.type}: {error}") from error
    return example


def _values(array: pa.Array, nullable: bool) -> Any:
    array = plain_array(array)
    kind = array.type
    if pt.is_fixed_size_list(kind):
        return _stacked(array, nullable)
    if pt.is_list(kind) or pt.is_large_list(kind):
        if family(plain_type(kind.value_type)) in ("text", "none"):
            return array.to_pylist()
        return [None if not row.is_valid else _values(row.values, False) for row in array]
    if family(kind) in ("text", "none") and not pt.is_null(kind):
        return array.to_pylist()
    return _tensor(_numbers(array, nullable))


def _numbers(array: pa.Array, nullable: bool) -> np.ndarray[Any, Any]:
    if pt.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
        array = array.cast(pa.int64())
    if pt.is_decimal(array.type) or pt.is_null(array.type):
        array = array.cast(pa.float64())
    if not pt.is_floating(array.type):
        if not nullable and array.null_count:
            raise pa.ArrowInvalid(
                "a null inside a list, or a null added after the dataset was created"
            )
        if not nullable:
            return np.asarray(array.to_numpy(zero_copy_only=False))
        array = array.cast(pa.uint8()) if pt.is_boolean(array.type) else array
        array = array.cast(pa.float64(), safe=False)
    return np.asarray(array.to_numpy(zero_copy_only=False))  # a null becomes NaN


def _tensor(values: np.ndarray[Any, Any]) -> Any:
    return torch.from_numpy(values if values.flags.writeable else values.copy())


def _stacked(array: pa.Array, nullable: bool) -> Any:
    """Converts lists of the same length to a matrix. A null list becomes a row of NaN."""
    there = array.is_valid().to_numpy(zero_copy_only=False)
    if not nullable and not there.all():
        raise pa.ArrowInvalid("a null inside a list, or a null added after the dataset was created")
    values = _values(array.flatten(), False)  # flatten() skips the values of null lists
    if not isinstance(values, torch.Tensor):
        return array.to_pylist()
    values = values.reshape(int(there.sum()), array.type.list_size, *values.shape[1:])
    if not nullable:
        return values
    dtype = values.dtype if values.is_floating_point() else torch.float64
    whole = torch.full((len(array), *values.shape[1:]), torch.nan, dtype=dtype)
    whole[torch.from_numpy(there)] = values.to(dtype)
    return whole


class RowDataset(Dataset[Any]):
    """A map-style dataset: examples by row number, for a ``DataLoader`` with any sampler.

    Args:
        source: a file, a dataset, a table, or the path or URI of a file or dataset.
        columns: columns of an example; ``None`` means all. :func:`tensors` describes the conversion
            of each type. A column has the same dtype in all batches.
        filter, params: as for :meth:`nimblepy.File.scan`. Only rows that pass the filter are
            examples. The filter is evaluated once, when the dataset is created.
        transform: applied to each example.

    Cost: a ``DataLoader`` requests a whole batch at once, which is one ``take``. A filter reads its
    columns once, and uses 8 bytes of memory for each row that passes.

    Example:
        >>> loader = DataLoader(RowDataset("train.nimble"), 256, shuffle=True)  # doctest: +SKIP
    """

    def __init__(
        self,
        source: Source,
        columns: Columns = None,
        *,
        filter: Filter = None,
        params: Parameters = None,
        transform: Callable[[Example], Any] | None = None,
    ) -> None:
        self._rows = pinned(as_rows(source))
        self._columns = column_names(columns)
        self._nullable = nullable_columns(self._rows, self._columns)
        self._numbers = passing_numbers(self._rows, filter, params)
        self._transform = transform

    def __len__(self) -> int:
        return self._rows.num_rows if self._numbers is None else len(self._numbers)

    def __getitem__(self, row: int) -> Any:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Any]:
        """Returns the examples at these rows, with one read."""
        try:
            numbers = rows if self._numbers is None else _numbers_at(self._numbers, rows)
            table = self._rows.take(numbers, self._columns)
        except InvalidArgumentError as error:
            raise IndexError(str(error)) from error
        return _examples(tensors(table, self._nullable), len(rows), self._transform)


class BlockDataset(IterableDataset[Any]):
    """An iterable dataset: all rows once per epoch, in random order if ``shuffle``.

    A block is a run of consecutive rows, which is read at once. So an epoch costs about as much as
    a scan. Rows are shuffled within groups of ``mixed_blocks`` blocks. The blocks are divided among
    the processes of a distributed job (``rank`` and ``world_size``) and their worker processes.

    Args:
        source, columns, filter, params, transform: as for :class:`RowDataset`.
        batch_rows: examples per batch, returned as tensors for a ``DataLoader`` with
            ``batch_size=None``. ``None`` returns single examples.
        block_rows: rows per block.
        mixed_blocks: number of blocks that are held in memory and shuffled together.
        seed: determines the order, together with the epoch (:meth:`set_epoch`).

    ``len()`` is the number of examples or batches of this ``rank`` with at most one worker. With
    more workers there may be more batches, because the last batch of each worker may be smaller.

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
        filter: Filter = None,
        params: Parameters = None,
        transform: Callable[[Example], Any] | None = None,
    ) -> None:
        self._rows = pinned(as_rows(source))
        self._columns = column_names(columns)
        self._nullable = nullable_columns(self._rows, self._columns)
        self._numbers = passing_numbers(self._rows, filter, params)
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
        """Sets the epoch, which determines the order. Call it before the epoch's workers start."""
        self._epoch = epoch

    @property
    def _num_rows(self) -> int:
        return self._rows.num_rows if self._numbers is None else len(self._numbers)

    def _blocks(self) -> np.ndarray[Any, Any]:
        """Returns the numbers of all blocks in the order of the epoch, the same in all workers."""
        blocks = np.arange(-(-self._num_rows // self._block_rows))
        if self._shuffle:
            np.random.default_rng([self._seed, self._epoch]).shuffle(blocks)
        return blocks

    def __len__(self) -> int:
        blocks = self._blocks()[self._rank :: self._world_size]
        ends = np.minimum((blocks + 1) * self._block_rows, self._num_rows)
        counts = ends - blocks * self._block_rows
        if self._batch_rows is None:
            return int(counts.sum())
        steps = range(0, len(blocks), self._mixed_blocks)
        mixed = [int(counts[at : at + self._mixed_blocks].sum()) for at in steps]
        return sum(-(-count // self._batch_rows) for count in mixed)

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        share, shares = self._rank, self._world_size
        if worker is not None:
            share, shares = share * worker.num_workers + worker.id, shares * worker.num_workers
        own_blocks = self._blocks()[share::shares]
        own = np.random.default_rng([self._seed, self._epoch, share])
        for at in range(0, len(own_blocks), self._mixed_blocks):
            yield from self._mixed(own_blocks[at : at + self._mixed_blocks], own)

    def _mixed(self, blocks: np.ndarray[Any, Any], generator: np.random.Generator) -> Iterator[Any]:
        begins = blocks * self._block_rows
        ends = np.minimum(begins + self._block_rows, self._num_rows)
        rows = np.concatenate([np.arange(b, e) for b, e in zip(begins, ends, strict=True)])
        numbers = rows if self._numbers is None else self._numbers[rows]
        held = tensors(self._rows.take(numbers, self._columns), self._nullable)
        order = generator.permutation(len(rows)) if self._shuffle else np.arange(len(rows))
        step = self._batch_rows or len(rows)
        for at in range(0, len(rows), step):
            picked = order[at : at + step]
            batch = {name: _picked(values, picked) for name, values in held.items()}
            if self._batch_rows is None:
                yield from _examples(batch, len(picked), self._transform)
            else:
                yield batch if self._transform is None else self._transform(batch)


def _numbers_at(numbers: np.ndarray[Any, Any], rows: Sequence[int]) -> np.ndarray[Any, Any]:
    try:
        return numbers[np.asarray(rows, dtype=np.int64)]
    except IndexError as error:
        raise InvalidArgumentError(str(error)) from error


def _picked(values: Any, rows: np.ndarray[Any, Any]) -> Any:
    if isinstance(values, list):
        return [values[row] for row in rows]
    return values[torch.from_numpy(rows)] if isinstance(values, torch.Tensor) else values[rows]


def _examples(
    columns: Example, count: int, transform: Callable[[Example], Any] | None
) -> list[Any]:
    examples = [{name: values[i] for name, values in columns.items()} for i in range(count)]
    return examples if transform is None else [transform(example) for example in examples]
