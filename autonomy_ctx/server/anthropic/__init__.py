"""An endpoint that speaks Anthropic's API."""
