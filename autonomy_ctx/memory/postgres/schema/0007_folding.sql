-- With which folding of words a conversation's messages were taken into the index (`FOLDING_VERSION`). With
-- another one, `indexed` counts for 0: the next search takes them in anew.
ALTER TABLE autonomy_ctx.search_progress ADD COLUMN folding integer NOT NULL DEFAULT 0;
