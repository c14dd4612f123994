"""How well an agent grounds questions in a catalog, with and without claims and checks."""
