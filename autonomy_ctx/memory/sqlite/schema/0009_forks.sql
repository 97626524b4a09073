-- Whether a conversation began as a fork. Only then its messages are found by `shared_range`.
ALTER TABLE conversation ADD COLUMN is_fork INTEGER NOT NULL DEFAULT 0;

-- The positions `first` to `last` of a fork are the rows of conversation `source_id`: one row per
-- conversation it came from, and one for its own messages. Ranges of one fork do not overlap.
CREATE TABLE shared_range (
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    source_id       INTEGER NOT NULL REFERENCES conversation (id),
    first           INTEGER NOT NULL,
    last            INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, first)
) WITHOUT ROWID;

CREATE INDEX shared_range_source ON shared_range (source_id, last);

-- What a segment stands for, and what changed after a position: a fork in the middle asks for both.
CREATE INDEX segment_replaced ON segment (conversation_id, replaced_by) WHERE replaced_by IS NOT NULL;

CREATE INDEX fact_position ON fact (conversation_id, position);
