-- One row once there was an embedder: the one whose vectors are kept. Another one gets another number, and
-- so does one whose vectors are kept in another column.
CREATE TABLE autonomy_ctx.embedder (
    number      bigint  NOT NULL,
    name        text COLLATE "C" NOT NULL,
    dimensions  integer NOT NULL,
    has_halfvec boolean NOT NULL
);

-- How far a conversation's own messages have been embedded, and by which embedder.
CREATE TABLE autonomy_ctx.vector_progress (
    conversation_id bigint PRIMARY KEY,
    embedder        bigint NOT NULL,
    embedded        bigint NOT NULL
);

-- The vector of a message, of length 1. Where the server has pgvector, the first embedder adds a column
-- `halfvec`, and there it is; else it is here, as half-precision numbers.
CREATE TABLE autonomy_ctx.vector (
    conversation_id bigint NOT NULL,
    position        bigint NOT NULL,
    embedder        bigint NOT NULL,
    vector          bytea,
    PRIMARY KEY (conversation_id, position)
);

-- What an embedder has left that is no longer in force.
CREATE INDEX vector_embedder ON autonomy_ctx.vector (embedder);

-- Whether the distance functions of pgvector work on a server, by its version and that of pgvector. A row is
-- committed before they are tried: builds for another processor end the server, and nobody tries them again.
CREATE TABLE autonomy_ctx.vector_trial (
    server text COLLATE "C" PRIMARY KEY,
    began  double precision NOT NULL,
    passed boolean          NOT NULL
);
