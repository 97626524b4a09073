"""Tools that come with the library; an agent offers those that are enabled."""
