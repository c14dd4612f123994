"""A read-only union of the files of a directory.

    ds = nb.open_dataset("events/")
    ds.get(("user 7", ts))       # opens the one file that can have the key
    ds.lookup(keys), ds.range(lower, upper), ds.scan(filter="x > 3"), ds.index_join(probe, on="k")

``listing.py`` lists the files, ``publish.py`` adds files, ``bounds.py`` finds files by key, and
``source.py`` reads them.
"""
