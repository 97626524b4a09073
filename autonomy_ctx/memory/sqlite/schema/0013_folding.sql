-- With which folding of words a conversation's messages were taken into the index (`FOLDING_VERSION`). With
-- another one, `indexed` counts for 0: the next search takes them in anew.
ALTER TABLE conversation ADD COLUMN folding INTEGER NOT NULL DEFAULT 0;

-- Whether the index has other forms of words for a scope. Where all is English there are none to look for.
ALTER TABLE search_place ADD COLUMN has_forms INTEGER NOT NULL DEFAULT 0;
