"""The parts that every server needs: the application, addresses, keys, limits and answers."""
