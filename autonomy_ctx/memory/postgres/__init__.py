"""The store in a PostgreSQL database: many processes and machines share one memory."""
