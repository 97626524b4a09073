"""What texts say, without a model: words, stems, sentences, dates, facts and digests."""
