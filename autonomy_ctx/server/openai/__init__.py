"""An endpoint that speaks OpenAI's APIs."""
