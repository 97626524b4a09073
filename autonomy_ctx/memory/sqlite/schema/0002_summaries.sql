-- Raised whenever the segments in force or the pins change.
ALTER TABLE conversation ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;

-- Counts the leases ever given. It stands here because a row of `work` goes when the work is done.
ALTER TABLE conversation ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;

-- Every segment ever committed, until its messages are deleted. A number is never used again:
-- `replaced_by` may name a row that has gone.
CREATE TABLE segment (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    first           INTEGER NOT NULL,
    last            INTEGER NOT NULL,
    level           INTEGER NOT NULL,
    provisional     INTEGER NOT NULL,
    tokens          INTEGER NOT NULL,
    model           TEXT    NOT NULL,
    input_tokens    INTEGER NOT NULL,
    output_tokens   INTEGER NOT NULL,
    prompt_hash     TEXT    NOT NULL,
    source_hash     TEXT    NOT NULL,
    coverage        REAL    NOT NULL,
    created         REAL    NOT NULL,
    generation      INTEGER NOT NULL,
    -- Null in force; the number of the segment that stands for it now; -1 when it was taken back.
    replaced_by     INTEGER,
    -- The number of the segment that covered a part of a provisional one and left this as its rest.
    rest_of         INTEGER,
    -- As a JSON string: a model may answer what is no valid Unicode text.
    text            TEXT    NOT NULL
);

CREATE INDEX segment_in_force ON segment (conversation_id, first) WHERE replaced_by IS NULL;

CREATE INDEX segment_last ON segment (conversation_id, last);

CREATE TABLE pin (
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    position        INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, position)
) WITHOUT ROWID;

-- Conversations that are owed something. `owner` and `lease_until` are null when nobody is at it.
CREATE TABLE work (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id),
    task            TEXT    NOT NULL,
    due             REAL    NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 0,
    refusals        INTEGER NOT NULL DEFAULT 0,
    refused         TEXT    NOT NULL DEFAULT '',
    owner           TEXT,
    lease_until     REAL
);

CREATE INDEX work_due ON work (task, due);
