"""What happened: messages and events, their dict forms, and pure functions over them."""
