"""The public names of File, Dataset and Table are those of the contract, and no others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import nimblepy as nb

_READING = """
    schema num_rows cluster_by indexes unique io_stats reset_io_stats size_bytes verify close
    get lookup contains count count_rows row_ranges take range page prefix head sample scan
    to_table to_pandas explain index_join asof asof_join nearest
"""
PUBLIC = {
    "File": _READING + "source metadata format_version layout is_stale refresh",
    "Dataset": _READING + "paths refresh stale",
    "Table": _READING
    + """
        name location catalog properties comment primary_key partition_by layout_by snapshot
        snapshots tags branches iceberg metadata_location at refresh append upsert delete
        overwrite merge transaction alter changes add_files convert tag branch drop_reference
        rollback compact optimize optimize_layout rewrite_manifests expire remove_orphans
        analyze health census draw_layout estimate files_for_keys facts describe claims check
        confirm fast_forward convert_deletes watch add_index drop_index files partitions
        publish_delta
    """,
}
# Names of the contract that do not exist yet. Move a name to PUBLIC when it does.
TO_COME = {
    "File": "",
    "Dataset": "",
    "Table": "",
}


@pytest.mark.parametrize("kind", PUBLIC)
def test_handles_show_public_names_only(tmp_path: Path, kind: str) -> None:
    rows = pa.table({"k": [1, 2, 3]})
    nb.write(rows, tmp_path / "a.nimble", cluster_by="k")
    handle: nb.File | nb.Dataset | nb.Table
    if kind == "File":
        handle = nb.open(tmp_path / "a.nimble")
    elif kind == "Dataset":
        handle = nb.open_dataset(tmp_path)
    else:
        pytest.importorskip("pyiceberg")
        handle = nb.connect(tmp_path / "lake").create_table("a.b", rows.schema)
    assert type(handle).__name__ == kind
    shown = {name for name in dir(handle) if not name.startswith("_")}
    assert shown == set(PUBLIC[kind].split())
    assert not shown & set(TO_COME[kind].split())
