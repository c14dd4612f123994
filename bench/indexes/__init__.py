"""Indexes: their size, memory and cost."""
