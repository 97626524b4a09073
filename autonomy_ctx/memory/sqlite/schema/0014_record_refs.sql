-- The messages that a record quotes: it is deleted with any of them. Position 0 is any message of the
-- conversation, conversation 0 any conversation of the scope.
CREATE TABLE record_ref (
    conversation_id INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    number          INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, position, number)
) WITHOUT ROWID;

CREATE INDEX record_ref_number ON record_ref (number);

-- A record that is replaced is deleted, too: connections that write set `recursive_triggers`.
CREATE TRIGGER record_deleted AFTER DELETE ON record BEGIN
    DELETE FROM record_ref WHERE number = old.number;
END;

-- What the contexts of before quote is not known.
INSERT INTO record_ref SELECT 0, 0, number FROM record WHERE derived;
