"""The inspector: a page that shows what a model was sent."""
