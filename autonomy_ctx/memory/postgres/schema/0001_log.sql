-- The clock of all leases and times: the server's, whatever the clocks of the machines that ask.
CREATE FUNCTION autonomy_ctx.now_seconds() RETURNS double precision
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT extract(epoch FROM pg_catalog.clock_timestamp())::double precision $$;

-- One row per conversation: where it stands. The row outlives its messages, so that
-- positions are never used again and a generation never comes back. No row is ever deleted: the other
-- tables need no foreign key, which would cost each append a second look at it.
CREATE TABLE autonomy_ctx.conversation (
    id            bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The SHA-256 of its three names (`key_digest`): together they can be too long for an index.
    key           bytea            NOT NULL UNIQUE,
    agent         text COLLATE "C" NOT NULL,
    scope         text COLLATE "C" NOT NULL,
    conversation  text COLLATE "C" NOT NULL,
    head          bigint           NOT NULL DEFAULT 0,
    count         bigint           NOT NULL DEFAULT 0,
    generation    bigint           NOT NULL DEFAULT 0,
    last_user     bigint           NOT NULL DEFAULT 0,
    -- Raised whenever the segments in force, the pins or the facts change.
    revision      bigint           NOT NULL DEFAULT 0,
    -- Counts the leases ever given. It stands here because a row of `work` goes when the work is done.
    fence         bigint           NOT NULL DEFAULT 0,
    -- The last number given to a fact. A number is never used again.
    last_fact     bigint           NOT NULL DEFAULT 0,
    -- Whether it has messages. It changes only with the first and the last one, so that an append
    -- need not touch the indexes below, and rows without messages are not in a listing's way.
    has_messages  boolean          NOT NULL DEFAULT false,
    -- Whether it began as a fork. Only then its messages are found by `shared_range`.
    is_fork       boolean          NOT NULL DEFAULT false,
    -- Whose turn it is: the ticket of the holder, 0 when nobody holds it.
    turn_ticket   bigint           NOT NULL DEFAULT 0,
    turn_owner    text             NOT NULL DEFAULT '',
    turn_until    double precision NOT NULL DEFAULT 0,
    -- The last ticket given. A ticket is never used again.
    last_ticket   bigint           NOT NULL DEFAULT 0,
    turns_waiting integer          NOT NULL DEFAULT 0
-- Room on each page for the next version of a row: an append then changes no index of this table.
) WITH (fillfactor = 70);

-- In the order of listings. Only the beginning of the last name is in the index, because three long
-- names do not fit: order by `left(conversation, 100), conversation`.
CREATE INDEX conversation_by_scope
    ON autonomy_ctx.conversation (scope, agent, left(conversation, 100)) WHERE has_messages;

CREATE INDEX conversation_by_agent ON autonomy_ctx.conversation (agent, scope) WHERE has_messages;

-- All of a scope, also what has no messages any more: for deletion.
CREATE INDEX conversation_scope ON autonomy_ctx.conversation (scope);

-- The log.
CREATE TABLE autonomy_ctx.message (
    conversation_id bigint           NOT NULL,
    position        bigint           NOT NULL,
    -- The id of the message, or for a very long one what stands for it in the index (`index_text`);
    -- then `long_id` has all of it.
    id              text COLLATE "C" NOT NULL,
    long_id         text COLLATE "C",
    -- Microseconds since 1970.
    created         bigint           NOT NULL,
    is_user         boolean          NOT NULL,
    tokens          bigint           NOT NULL,
    counter         text             NOT NULL,
    -- The bytes of the body.
    size            bigint           NOT NULL,
    body            text             NOT NULL,
    PRIMARY KEY (conversation_id, position),
    CONSTRAINT message_id UNIQUE (conversation_id, id)
);

-- The uncut bodies of messages that were too large for the log.
CREATE TABLE autonomy_ctx.whole (
    conversation_id bigint NOT NULL,
    position        bigint NOT NULL,
    body            text   NOT NULL,
    PRIMARY KEY (conversation_id, position)
);

-- The positions `first` to `last` of a fork are the rows of conversation `source_id`: one row per
-- conversation it came from, and one for its own messages. Ranges of one fork do not overlap.
CREATE TABLE autonomy_ctx.shared_range (
    conversation_id bigint NOT NULL,
    source_id       bigint NOT NULL,
    first           bigint NOT NULL,
    last            bigint NOT NULL,
    PRIMARY KEY (conversation_id, first)
);

CREATE INDEX shared_range_source ON autonomy_ctx.shared_range (source_id, last);

-- Who waits for a turn, in the order of the tickets. A row whose time is over counts as gone.
CREATE TABLE autonomy_ctx.turn_wait (
    conversation_id bigint           NOT NULL,
    ticket          bigint           NOT NULL,
    owner           text             NOT NULL,
    until           double precision NOT NULL,
    PRIMARY KEY (conversation_id, ticket)
);

-- One row that a health check overwrites: only a write shows whether one is possible.
CREATE TABLE autonomy_ctx.health (
    id integer          PRIMARY KEY,
    at double precision NOT NULL
);
