"""The server of the Model Context Protocol: tables of a catalog for agents, read only."""
