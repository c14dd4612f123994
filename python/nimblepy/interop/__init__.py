"""Other libraries' frames."""
