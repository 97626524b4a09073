"""Replies to judge: conversations with good records of them, and replies that must not replace history."""
