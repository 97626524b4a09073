CREATE TABLE document (
  source TEXT PRIMARY KEY,
  title TEXT,
  digest BLOB NOT NULL,
  -- The folder and pattern that brought it, so that a file that is gone leaves with the next reading.
  folder TEXT
) WITHOUT ROWID;

CREATE TABLE passage (
  id INTEGER PRIMARY KEY,
  source TEXT NOT NULL,
  number INTEGER NOT NULL,
  text TEXT NOT NULL
);

CREATE INDEX passage_source ON passage (source);
