"""Messages in the words of each provider, and replies back; pure, one file for each."""
