"""Many files as one: a directory whose manifest says which file can hold a key.

    ds = nb.open_dataset("events/")
    ds.get(("user 7", ts))       # opens the one file that can have the key
    ds.lookup(keys), ds.range(lower, upper), ds.scan(filter="x > 3"), ds.index_join(probe, on="k")

``manifest.py`` has the list of files, ``commit.py`` changes it in one atomic step, ``bounds.py``
finds files by key, ``source.py`` answers.
"""
