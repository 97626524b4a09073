-- One row once there was an embedder: the one whose vectors are kept. Another one gets another number.
CREATE TABLE embedder (
    number     INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    dimensions INTEGER NOT NULL
);

-- How far a conversation's own messages have been embedded, and by which embedder.
CREATE TABLE vector_progress (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id),
    embedder        INTEGER NOT NULL,
    embedded        INTEGER NOT NULL
);

-- The scopes of agents that have vectors. `removals` grows when some of them go: who has them in memory
-- reads them again.
CREATE TABLE vector_scope (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    agent    TEXT    NOT NULL,
    scope    TEXT    NOT NULL,
    removals INTEGER NOT NULL DEFAULT 0,
    UNIQUE (agent, scope)
);

-- The vector of a message, of length 1, as half-precision numbers. Ids only grow: what is new has a larger
-- one than all that was read before.
CREATE TABLE vector (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_id        INTEGER NOT NULL REFERENCES vector_scope (id),
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    position        INTEGER NOT NULL,
    embedder        INTEGER NOT NULL,
    vector          BLOB    NOT NULL,
    UNIQUE (conversation_id, position)
);

CREATE INDEX vector_of_scope ON vector (scope_id, id);

-- What an embedder has left that is no longer in force.
CREATE INDEX vector_embedder ON vector (embedder);
