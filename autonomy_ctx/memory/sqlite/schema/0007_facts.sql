-- When the first and the last message of a segment were written, in seconds since 1970; 0 when not known.
ALTER TABLE segment ADD COLUMN began REAL NOT NULL DEFAULT 0;

ALTER TABLE segment ADD COLUMN ended REAL NOT NULL DEFAULT 0;

-- The last number given to a fact. A number is never used again.
ALTER TABLE conversation ADD COLUMN last_fact INTEGER NOT NULL DEFAULT 0;

-- Changes of the standing facts. A fact holds while no row has ended it.
CREATE TABLE fact (
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    number          INTEGER NOT NULL,
    kind            TEXT    NOT NULL,
    position        INTEGER NOT NULL,
    created         REAL    NOT NULL,
    -- The fact that this one replaces, or whose end it tells.
    target          INTEGER,
    source          TEXT    NOT NULL,
    -- The number of the segment that it was written with; 0 for what a user wrote.
    segment         INTEGER NOT NULL,
    is_done         INTEGER NOT NULL,
    -- Null while it holds; the number of the row that ended it; -1 when a user removed the one in its place.
    ended_by        INTEGER,
    -- As a JSON string: a model may answer what is no valid Unicode text.
    text            TEXT    NOT NULL,
    PRIMARY KEY (conversation_id, number)
) WITHOUT ROWID;

CREATE INDEX fact_in_force ON fact (conversation_id, number) WHERE ended_by IS NULL AND is_done = 0;
