"""Nearest vectors, beside faiss and Lance."""
