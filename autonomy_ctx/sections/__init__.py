"""Sections pick from memory what a model will see."""
