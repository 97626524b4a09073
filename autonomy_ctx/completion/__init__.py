"""One call of any model, what a summarizer is asked, and whether its answer may be kept."""
