"""Reads the files of a directory as one read-only union.

    ds = nb.open_dataset("events/")
    ds.get(("user 7", ts))       # opens only the file that can contain the key
    ds.lookup(keys), ds.range(lower, upper), ds.scan(filter="x > 3"), ds.index_join(probe, on="k")

``listing.py`` lists the files, ``publish.py`` adds files, ``bounds.py`` finds files by key, and
``source.py`` reads them.
"""
