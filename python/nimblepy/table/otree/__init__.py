"""Layouts: which rows come into one file, and samples of tables that are laid out by an OTree."""
