"""What a column is: paths, types, sort keys, exact values."""
