-- Every segment ever committed, until its messages are deleted. A number is never used again:
-- `replaced_by` may name a row that has gone.
CREATE TABLE autonomy_ctx.segment (
    number          bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint           NOT NULL,
    first           bigint           NOT NULL,
    last            bigint           NOT NULL,
    level           integer          NOT NULL,
    provisional     boolean          NOT NULL,
    tokens          bigint           NOT NULL,
    model           text             NOT NULL,
    input_tokens    bigint           NOT NULL,
    output_tokens   bigint           NOT NULL,
    prompt_hash     text             NOT NULL,
    source_hash     text             NOT NULL,
    coverage        double precision NOT NULL,
    created         double precision NOT NULL,
    generation      bigint           NOT NULL,
    -- When the first and the last message were written, in seconds since 1970; 0 when not known.
    began           double precision NOT NULL,
    ended           double precision NOT NULL,
    -- Null in force; the number of the segment that stands for it now; -1 when it was taken back.
    replaced_by     bigint,
    -- The number of the segment that covered a part of a provisional one and left this as its rest.
    rest_of         bigint,
    -- As a JSON string: a model may answer what is no valid Unicode text.
    text            text             NOT NULL
);

CREATE INDEX segment_in_force ON autonomy_ctx.segment (conversation_id, first) WHERE replaced_by IS NULL;

CREATE INDEX segment_last ON autonomy_ctx.segment (conversation_id, last);

-- What a segment stands for: a fork in the middle of it asks.
CREATE INDEX segment_replaced ON autonomy_ctx.segment (conversation_id, replaced_by)
    WHERE replaced_by IS NOT NULL;

CREATE TABLE autonomy_ctx.pin (
    conversation_id bigint NOT NULL,
    position        bigint NOT NULL,
    PRIMARY KEY (conversation_id, position)
);

-- Changes of the standing facts. A fact holds while no row has ended it.
CREATE TABLE autonomy_ctx.fact (
    conversation_id bigint           NOT NULL,
    number          bigint           NOT NULL,
    kind            text             NOT NULL,
    position        bigint           NOT NULL,
    created         double precision NOT NULL,
    -- The fact that this one replaces, or whose end it tells.
    target          bigint,
    source          text             NOT NULL,
    -- The number of the segment that it was written with; 0 for what a user wrote.
    segment         bigint           NOT NULL,
    is_done         boolean          NOT NULL,
    -- Null while it holds; the number of the row that ended it; -1 when a user removed the one in its place.
    ended_by        bigint,
    -- As a JSON string: a model may answer what is no valid Unicode text.
    text            text             NOT NULL,
    PRIMARY KEY (conversation_id, number)
);

CREATE INDEX fact_in_force ON autonomy_ctx.fact (conversation_id, number)
    WHERE ended_by IS NULL AND NOT is_done;

-- What changed after a position: a fork there asks.
CREATE INDEX fact_position ON autonomy_ctx.fact (conversation_id, position);

-- Conversations that are owed something. `owner` and `lease_until` are null when nobody is at it.
CREATE TABLE autonomy_ctx.work (
    conversation_id bigint           PRIMARY KEY,
    task            text COLLATE "C" NOT NULL,
    due             double precision NOT NULL,
    attempts        integer          NOT NULL DEFAULT 0,
    refusals        integer          NOT NULL DEFAULT 0,
    refused         text             NOT NULL DEFAULT '',
    owner           text,
    lease_until     double precision
);

CREATE INDEX work_due ON autonomy_ctx.work (task, due);
