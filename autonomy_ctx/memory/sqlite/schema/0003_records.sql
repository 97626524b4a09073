-- Rows beside a log, by kind and name. `size` (bytes) stands before `body` so that a reader can
-- decline a large body unread.
CREATE TABLE record (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    kind            TEXT    NOT NULL,
    name            TEXT    NOT NULL,
    at              REAL    NOT NULL,
    -- Made from messages: goes when any message of the conversation is deleted.
    derived         INTEGER NOT NULL,
    size            INTEGER NOT NULL,
    -- As a JSON string: it may be no valid Unicode text.
    body            TEXT    NOT NULL,
    UNIQUE (conversation_id, kind, name)
);

CREATE INDEX record_order ON record (conversation_id, kind, number);
