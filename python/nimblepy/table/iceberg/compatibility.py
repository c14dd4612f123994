"""What is used of pyiceberg beyond its public interface, and a check that it is there."""

from __future__ import annotations

from typing import Any

import pyiceberg
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.expressions import visitors as ice_visitors
from pyiceberg.manifest import DataFile as IceDataFile
from pyiceberg.manifest import (
    FileFormat,
    ManifestEntry,
)
from pyiceberg.table import update as ice_update


def _register_format(name: str) -> Any:
    """Makes ``name`` a file format that pyiceberg reads from and writes to manifests."""
    known = FileFormat.__members__.get(name)
    if known is not None:
        return known
    member = str.__new__(FileFormat, name)
    member._name_ = name
    member._value_ = name
    FileFormat._member_names_.append(name)
    FileFormat._member_map_[name] = member
    FileFormat._value2member_map_[name] = member
    type.__setattr__(FileFormat, name, member)
    return member


def self_test() -> None:
    """Checks what is used of pyiceberg beyond its public interface.

    Raises:
        ImportError: this version is another one than nimblepy was written for; the message names
            what was not found.
    """
    wrong = []
    if _register_format("NIMBLEPY") is not FileFormat("NIMBLEPY"):
        wrong.append("FileFormat takes no new member")
    if FileFormat("PARQUET") is not FileFormat.PARQUET:
        wrong.append("FileFormat has lost its members")
    for owner, name in (
        (MetastoreCatalog, "_convert_schema_if_needed"),
        (MetastoreCatalog, "_empty_table_metadata"),
        (MetastoreCatalog, "_get_updated_props_and_update_summary"),
        (MetastoreCatalog, "_load_file_io"),
        (MetastoreCatalog, "_parse_metadata_version"),
        (MetastoreCatalog, "_resolve_table_location"),
        (MetastoreCatalog, "_write_metadata"),
        (ice_update, "_apply_table_update"),
        (ice_update, "_TableMetadataUpdateContext"),
        (ice_update, "_update_table_metadata_log"),
        (ice_visitors, "_StrictMetricsEvaluator"),
        (IceDataFile, "from_args"),
        (ManifestEntry, "from_args"),
    ):
        if not hasattr(owner, name):
            wrong.append(f"{owner.__name__} has no {name}")
    if wrong:
        raise ImportError(
            f"pyiceberg {pyiceberg.__version__} does not fit this nimblepy, which needs "
            f">=0.12,<0.13: {'; '.join(wrong)}"
        )
