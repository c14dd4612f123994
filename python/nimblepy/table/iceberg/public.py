"""What the rest of nimblepy uses of this package. Loading it loads pyiceberg."""

from nimblepy.table.iceberg.catalogs import (
    NoSuchTable,
    TableExists,
    create_namespace,
    create_table,
    database_of,
    drop_namespace,
    drop_table,
    is_catalog,
    list_namespaces,
    list_tables,
    load_table,
    metadata_at,
    open_sqlite,
    open_uri,
    register_table,
    rename_table,
)
from nimblepy.table.iceberg.commits import (
    FilesGone,
    ManifestsCommit,
    SnapshotCommit,
    SwapInDoubt,
    SwapLost,
    may_land_later,
    remove_reference,
    remove_snapshots,
    set_reference,
    set_statistics,
    swap,
    who,
)
from nimblepy.table.iceberg.compatibility import self_test
from nimblepy.table.iceberg.evolution import Evolution
from nimblepy.table.iceberg.kept_manifests import decoded, forget_manifests, live_files
from nimblepy.table.iceberg.local_io import local_path
from nimblepy.table.iceberg.metadata import (
    MAIN,
    MOST_ATTEMPTS,
    NAME_MAPPING,
    Metadata,
    check_name_mapping,
)
from nimblepy.table.iceberg.pruner import Pruner
from nimblepy.table.iceberg.schemas import bound_bytes, fresh, to_arrow, to_iceberg
from nimblepy.table.iceberg.statistics import (
    SKETCH,
    distinct_values,
    moved_statistics,
    read_sketches,
    sketch_blob,
    write_statistics,
)

self_test()

__all__ = [
    "MAIN",
    "MOST_ATTEMPTS",
    "NAME_MAPPING",
    "SKETCH",
    "Evolution",
    "FilesGone",
    "ManifestsCommit",
    "Metadata",
    "NoSuchTable",
    "Pruner",
    "SnapshotCommit",
    "SwapInDoubt",
    "SwapLost",
    "TableExists",
    "bound_bytes",
    "check_name_mapping",
    "create_namespace",
    "create_table",
    "database_of",
    "decoded",
    "distinct_values",
    "drop_namespace",
    "drop_table",
    "forget_manifests",
    "fresh",
    "is_catalog",
    "list_namespaces",
    "list_tables",
    "live_files",
    "load_table",
    "local_path",
    "may_land_later",
    "metadata_at",
    "moved_statistics",
    "open_sqlite",
    "open_uri",
    "read_sketches",
    "register_table",
    "remove_reference",
    "remove_snapshots",
    "rename_table",
    "set_reference",
    "set_statistics",
    "sketch_blob",
    "swap",
    "to_arrow",
    "to_iceberg",
    "who",
    "write_statistics",
]
