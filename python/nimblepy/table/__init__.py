"""Tables: sets of files with snapshots, under Iceberg metadata."""

from importlib.util import find_spec

from nimblepy.errors import MissingExtraError

if find_spec("pyiceberg") is None:
    raise MissingExtraError("tables need pyiceberg: pip install 'nimblepy[table]'")
