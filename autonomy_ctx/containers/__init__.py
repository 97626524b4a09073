"""Items in hand, before or beside memory."""
