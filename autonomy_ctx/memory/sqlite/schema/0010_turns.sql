-- Who holds the turn of a conversation, until when, the last ticket ever given and how many wait. A ticket
-- of 0 is nobody's. It stands here so that a turn begins and ends with one row that is written anyway.
ALTER TABLE conversation ADD COLUMN turn_ticket INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN turn_owner TEXT NOT NULL DEFAULT '';
ALTER TABLE conversation ADD COLUMN turn_until REAL NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN last_ticket INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN turns_waiting INTEGER NOT NULL DEFAULT 0;

-- Turns that wait, in the order of their tickets.
CREATE TABLE turn_wait (
    conversation_id INTEGER NOT NULL REFERENCES conversation (id),
    ticket          INTEGER NOT NULL,
    owner           TEXT    NOT NULL,
    until           REAL    NOT NULL,
    PRIMARY KEY (conversation_id, ticket)
) WITHOUT ROWID;
