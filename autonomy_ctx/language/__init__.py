"""Reading of texts without a model: words, stems, sentences, dates, facts and digests."""
