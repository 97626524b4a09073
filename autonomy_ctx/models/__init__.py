"""Models: one way to ask any of them, over HTTP or offline."""
