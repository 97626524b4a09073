"""Memory stores messages by conversation: in the process, in SQLite or in PostgreSQL."""
