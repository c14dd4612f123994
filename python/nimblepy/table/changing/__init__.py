"""Changes by key or condition: which rows they touch, and what becomes of them."""
