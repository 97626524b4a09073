"""Memory keeps items, per conversation, in process or on disk."""
