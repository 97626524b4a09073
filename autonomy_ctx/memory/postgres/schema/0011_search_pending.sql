-- A search reads what is gathered once for each of its terms, so less is gathered.
ALTER INDEX autonomy_ctx.search_entry_terms SET (gin_pending_list_limit = 64);
