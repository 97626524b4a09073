-- When a message was pinned, in seconds since 1970, null for those from before; `user` or `model`, who did.
ALTER TABLE autonomy_ctx.pin ADD COLUMN pinned_at double precision;
ALTER TABLE autonomy_ctx.pin ADD COLUMN source text NOT NULL DEFAULT 'user';

-- Whether a fact holds in all conversations of its scope with this agent.
ALTER TABLE autonomy_ctx.fact ADD COLUMN in_profile boolean NOT NULL DEFAULT false;

CREATE INDEX fact_in_profile ON autonomy_ctx.fact (conversation_id, number)
    WHERE in_profile AND ended_by IS NULL AND NOT is_done;
