"""As-of joins, beside other systems."""
