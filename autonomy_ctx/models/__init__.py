"""Models: one way to call any of them, over HTTP or offline."""
