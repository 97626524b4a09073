"""Calls of any model, the prompt of a summary, and the checks of its answer."""
