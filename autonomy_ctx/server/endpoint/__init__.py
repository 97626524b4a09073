"""The endpoint in front of a model: memory for clients of any API that it speaks."""
