"""What a model may look up: passages of documents, found by words, by meaning, or by both."""
