"""A zoo of columns, each alone in a file: what it takes, beside other formats.

`python -m bench.zoo` measures; see __main__.py.
"""
