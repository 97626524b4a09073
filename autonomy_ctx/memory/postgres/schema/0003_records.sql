-- A number is never used again, whatever becomes of its row.
CREATE SEQUENCE autonomy_ctx.record_number;

-- Rows beside a log, by kind and name.
CREATE TABLE autonomy_ctx.record (
    number          bigint           PRIMARY KEY,
    conversation_id bigint           NOT NULL,
    kind            text COLLATE "C" NOT NULL,
    -- The name, or for a very long one what stands for it in the index (`index_text`); then `long_name`
    -- has all of it.
    name            text COLLATE "C" NOT NULL,
    long_name       text COLLATE "C",
    at              double precision NOT NULL,
    -- Made from messages: goes when any message of the conversation is deleted.
    derived         boolean          NOT NULL,
    -- As a JSON string: it may be no valid Unicode text.
    body            text             NOT NULL,
    CONSTRAINT record_name UNIQUE (conversation_id, kind, name)
);

CREATE INDEX record_order ON autonomy_ctx.record (conversation_id, kind, number);
