-- One row that a health check overwrites: only a write shows whether there is room for one.
CREATE TABLE health (
    id   INTEGER PRIMARY KEY,
    body BLOB    NOT NULL
);
