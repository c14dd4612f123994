"""What an installed nimblepy must do, with nothing of the checkout: `python -I tools/smoke.py`.

Writes a file, opens it, looks rows up by its key and by an index that is added afterwards, scans
it with a filter, verifies it, and asks the command line about it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import nimblepy as nb

ROWS = 300_000


def main() -> None:
    installed = Path(nb.__file__).resolve()
    if "site-packages" not in installed.parts:
        sys.exit(f"smoke: {installed} is not an installed nimblepy")
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "smoke.nimble")
        ask(path)
        command = Path(sys.executable).with_name("nimble")
        for arguments in (["inspect", path], ["verify", path], ["lookup", path, "77"]):
            done = subprocess.run(
                [command, *arguments], capture_output=True, text=True, check=False
            )
            if done.returncode != 0 or not done.stdout:
                sys.exit(f"smoke: nimble {' '.join(arguments)}: {done.stdout}{done.stderr}")
    print(f"smoke: nimblepy {nb.__version__} in {installed.parent} works")


def ask(path: str) -> None:
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "name": [f"name {i % 1000}" for i in range(ROWS)],
            "score": [None if i % 7 == 0 else i / 2 for i in range(ROWS)],
        }
    )
    nb.write(table, path, cluster_by="id", unique=True)
    with nb.open(path) as file:
        assert file.get(41) == {"id": 41, "name": "name 41", "score": 20.5}
        assert file.get(ROWS) is None
        assert file.lookup([5, 3, ROWS], columns=["id"]).column("id").to_pylist() == [5, 3]
        assert file.to_table().equals(table)
    nb.add_index(path, nb.HashIndex("name"))
    with nb.open(path) as file:
        assert file.lookup(["name 9"], on="name").num_rows == ROWS // 1000
        assert file.scan(filter="name = 'name 9' AND score IS NULL").count() == 43
        file.verify()


if __name__ == "__main__":
    main()
