-- Who writes, and the number of its last transaction that was committed. A row is written in this transaction:
-- it tells whether a commit without an answer took place, also after a crash or a failover. One row for each
-- transaction that a process has under way at once; rows of processes that have ended go after some days.
CREATE TABLE autonomy_ctx.writer (
    id     uuid             PRIMARY KEY,
    number bigint           NOT NULL,
    at     double precision NOT NULL
);
