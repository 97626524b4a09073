"""Agents compose a context, call a model and store the answer, turn by turn. A node hosts agents."""
