"""A template runs sections in order and returns a composed context."""
