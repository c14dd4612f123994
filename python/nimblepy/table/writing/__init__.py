"""From rows to files, and the attempts of a commit."""
