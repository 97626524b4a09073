"""A node's HTTP API."""
