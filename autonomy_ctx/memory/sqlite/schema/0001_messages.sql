-- One row per conversation: where it stands. The row outlives its messages, so that
-- positions are never used again and a generation never comes back.
CREATE TABLE conversation (
    id           INTEGER PRIMARY KEY,
    agent        TEXT    NOT NULL,
    scope        TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    head         INTEGER NOT NULL DEFAULT 0,
    count        INTEGER NOT NULL DEFAULT 0,
    generation   INTEGER NOT NULL DEFAULT 0,
    last_user    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (agent, scope, conversation)
);

CREATE INDEX conversation_scope ON conversation (scope);

-- The log. `size` stands before `body` so that a reader can decline a large body unread.
CREATE TABLE message (
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    position        INTEGER NOT NULL,
    id              TEXT    NOT NULL,
    created         INTEGER NOT NULL,
    is_user         INTEGER NOT NULL,
    tokens          INTEGER NOT NULL,
    counter         TEXT    NOT NULL,
    size            INTEGER NOT NULL,
    body            TEXT    NOT NULL,
    PRIMARY KEY (conversation_id, position)
) WITHOUT ROWID;

CREATE UNIQUE INDEX message_id ON message (conversation_id, id);

-- The uncut bodies of messages that were too large for the log.
CREATE TABLE whole (
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    position        INTEGER NOT NULL,
    body            TEXT    NOT NULL,
    PRIMARY KEY (conversation_id, position)
);
