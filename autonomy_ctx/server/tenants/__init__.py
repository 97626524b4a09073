"""An HTTP API for the users of an application."""
