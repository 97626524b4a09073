-- How far a conversation's messages can be searched: those up to this position are in the index.
ALTER TABLE conversation ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;

-- Each scope of each agent that was ever searched. Its number is a part of every term that is
-- indexed for it, so that no query can meet a term of another one.
CREATE TABLE search_place (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    scope TEXT NOT NULL,
    UNIQUE (agent, scope)
);

-- Which message a row of the index stands for. A row whose message is deleted gets the conversation
-- 0 until it is taken out of the index. The index itself, `search_term`, is made by the first search:
-- a library without FTS5 can do everything else.
CREATE TABLE search_entry (
    id              INTEGER PRIMARY KEY,
    conversation_id INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    UNIQUE (conversation_id, position)
);

-- What deletions have left to do in the index: 0 nothing, 1 take rows out, 2 go on merging.
CREATE TABLE search_purge (
    stage INTEGER NOT NULL
);

INSERT INTO search_purge VALUES (0);
