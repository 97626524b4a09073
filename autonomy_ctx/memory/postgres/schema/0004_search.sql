-- Each scope of each agent that was ever searched. Its number is a part of every term that is indexed for
-- it: no query meets a term of another one, and none has to pass over the entries of another one.
CREATE TABLE autonomy_ctx.search_scope (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The SHA-256 of its two names (`scope_digest`).
    key    bytea  NOT NULL UNIQUE
);

-- How far a conversation's messages can be searched: those up to this position are in the index. Not a
-- column of `conversation`, whose row every append changes.
CREATE TABLE autonomy_ctx.search_progress (
    conversation_id bigint PRIMARY KEY,
    indexed         bigint NOT NULL
);

-- The terms of each message that was taken into the index. A term has as many positions as the message has
-- it, from 1 on; where it stands does not matter.
CREATE TABLE autonomy_ctx.search_entry (
    conversation_id bigint   NOT NULL,
    position        bigint   NOT NULL,
    -- In the order in which they were taken in: of equals the newest is shown first.
    number          bigint   GENERATED ALWAYS AS IDENTITY,
    -- How many terms the message has.
    length          integer  NOT NULL,
    terms           tsvector NOT NULL,
    PRIMARY KEY (conversation_id, position)
);

-- New entries are gathered and sorted in together, twice as fast. The limit (in kB) is small, because every
-- search of every scope reads what is gathered.
CREATE INDEX search_entry_terms ON autonomy_ctx.search_entry USING gin (terms)
    WITH (gin_pending_list_limit = 256);
