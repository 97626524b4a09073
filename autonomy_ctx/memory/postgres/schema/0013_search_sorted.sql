-- A search reads what is gathered once for each of its terms, which is half of its time, so nothing is gathered.
ALTER INDEX autonomy_ctx.search_entry_terms SET (fastupdate = off);
SELECT gin_clean_pending_list('autonomy_ctx.search_entry_terms');
