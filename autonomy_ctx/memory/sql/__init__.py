"""What the transactions of a store decide and do, written once for SQLite and PostgreSQL."""
