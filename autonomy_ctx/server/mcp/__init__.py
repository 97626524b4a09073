"""Memory as an MCP server."""
