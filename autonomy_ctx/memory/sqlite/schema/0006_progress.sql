-- One row: which database this is, and how far it has come. Counted in every transaction that changes
-- something, and written to a small file beside the database after its commit.
CREATE TABLE progress (
    database TEXT    NOT NULL,
    commits  INTEGER NOT NULL,
    messages INTEGER NOT NULL
);

INSERT INTO progress VALUES (lower(hex(randomblob(16))), 0, 0);
