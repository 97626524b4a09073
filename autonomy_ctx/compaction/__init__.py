"""How a long log reads short: planned by pure functions, written in the background."""
