"""Key-value stores: LMDB, the one to beat at lookups, and RocksDB."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Any

import pyarrow as pa

from bench import packed
from bench.peers.peer import NoGoodAnswer, Peer

MAP_BYTES = 1 << 37
PUT_ROWS = 1 << 16


class KeyValue(Peer):
    """Packed rows under encoded keys; what a lookup finds is decoded."""

    def prepare(self) -> None:
        self.layout = packed.Layout(self.schema)
        self.codec = packed.KeyCodec(self.schema, self.key)

    def pairs(self, table: pa.Table) -> Iterable[Iterable[tuple[bytes, bytes]]]:
        """Keys and values in key order, some thousands at a time."""
        if not self.dataset.clustered:
            table = table.sort_by([(name, "ascending") for name in self.key])
        for batch in table.to_batches(PUT_ROWS):
            keys = self.codec.all(pa.table(batch.select(list(self.key))))
            yield zip(keys, self.layout.pack(batch), strict=True)

    def between(self, lower: bytes, upper: bytes, columns: list[str]) -> Any:
        raise NoGoodAnswer

    def range(self, lower: Any, upper: Any, columns: list[str]) -> Any:
        return self.between(self.codec.one(lower), self.codec.one(upper), columns)

    def prefix(self, first: Any, columns: list[str]) -> Any:
        return self.between(*self.codec.prefix(first), columns)

    def as_table(self, answer: Any) -> pa.Table:
        return packed.as_table(self.layout, *answer)


class Lmdb(KeyValue):
    name = "lmdb"
    package = "lmdb"
    settings = "packed row as value, decoded; read transaction kept open; no read-ahead"

    def prepare(self) -> None:
        import lmdb

        super().prepare()
        self.lmdb = lmdb

    def build(self, table: pa.Table) -> None:
        environment = self.lmdb.open(
            str(self.path), map_size=MAP_BYTES, sync=False, writemap=True, map_async=True
        )
        for pairs in self.pairs(table):
            with environment.begin(write=True) as write:
                write.cursor().putmulti(pairs, append=True)
        environment.sync(True)
        environment.close()

    def open(self) -> None:
        self.environment = self.lmdb.open(
            str(self.path), readonly=True, lock=False, readahead=False, map_size=MAP_BYTES
        )
        self.transaction = self.environment.begin()

    def close(self) -> None:
        self.transaction.abort()
        self.environment.close()

    def get(self, key: Any) -> dict[str, Any] | None:
        value = self.transaction.get(self.codec.one(key))
        return None if value is None else self.layout.row(value)

    def lookup(self, keys: pa.Table, columns: list[str]) -> Any:
        pick = self.layout.picker(columns)
        # measured: sorted keys, one get each, is 13 % quicker than getmulti
        wanted = sorted(self.codec.all(keys))
        found = map(self.transaction.get, wanted)
        return columns, [pick(value) for value in found if value is not None]

    def between(self, lower: bytes, upper: bytes, columns: list[str]) -> Any:
        pick = self.layout.picker(columns)
        cursor = self.transaction.cursor()
        rows = []
        if cursor.set_range(lower):
            for key, value in cursor:
                if key >= upper:
                    break
                rows.append(pick(value))
        return columns, rows

    def size_bytes(self) -> int:
        # the file is as long as the map and mostly a hole
        return sum(p.stat().st_blocks * 512 for p in self.path.iterdir())


class RocksDb(KeyValue):
    name = "rocksdb"
    package = "rocksdict"
    settings = (
        "packed row as value, decoded; one sorted table file ingested, LZ4, 4 KiB blocks with hash "
        "index, Bloom filter of 10 bits a key, 512 MiB block cache, read only"
    )
    CACHE_BYTES = 512 << 20

    def prepare(self) -> None:
        import rocksdict

        super().prepare()
        self.rocks = rocksdict

    def options(self) -> Any:
        rocks = self.rocks
        options = rocks.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(rocks.DBCompressionType.lz4())
        blocks = rocks.BlockBasedOptions()
        blocks.set_block_cache(rocks.Cache(self.CACHE_BYTES))
        blocks.set_bloom_filter(10, False)
        blocks.set_format_version(5)
        kind = rocks.DataBlockIndexType.binary_and_hash()
        blocks.set_data_block_index_type(kind)
        options.set_block_based_table_factory(blocks)
        return options

    def build(self, table: pa.Table) -> None:
        scratch = self.path.with_name(f"{self.path.name}.sst")
        writer = self.rocks.SstFileWriter(options=self.options())
        writer.open(str(scratch))
        for pairs in self.pairs(table):
            for key, value in pairs:
                writer[key] = value
        writer.finish()
        store = self.rocks.Rdict(str(self.path), self.options())
        store.ingest_external_file([str(scratch)])
        store.flush()
        store.close()
        scratch.unlink(missing_ok=True)

    def open(self) -> None:
        self.store = self.rocks.Rdict(
            str(self.path), self.options(), access_type=self.rocks.AccessType.read_only()
        )

    def close(self) -> None:
        self.store.close()

    def get(self, key: Any) -> dict[str, Any] | None:
        value = self.store.get(self.codec.one(key))
        return None if value is None else self.layout.row(value)

    def lookup(self, keys: pa.Table, columns: list[str]) -> Any:
        pick = self.layout.picker(columns)
        found = self.store.get(sorted(self.codec.all(keys)))
        return columns, [pick(value) for value in found if value is not None]

    def between(self, lower: bytes, upper: bytes, columns: list[str]) -> Any:
        pick = self.layout.picker(columns)
        pairs = takewhile(lambda pair: pair[0] < upper, self.store.items(from_key=lower))
        return columns, [pick(value) for _, value in pairs]
