"""Scripts of the transactions of a store, written once for SQLite and PostgreSQL."""
