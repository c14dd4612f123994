"""Predicates: SQL text and expressions in; bounds, pushdown and evaluation out."""
