"""Memory in one SQLite file, for any number of processes on one machine."""
