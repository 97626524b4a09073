-- When a message was pinned, in seconds since 1970, null for those from before; `user` or `model`, who did.
ALTER TABLE pin ADD COLUMN pinned_at REAL;
ALTER TABLE pin ADD COLUMN source TEXT NOT NULL DEFAULT 'user';

-- Whether a fact holds in all conversations of its scope with this agent.
ALTER TABLE fact ADD COLUMN in_profile INTEGER NOT NULL DEFAULT 0;

CREATE INDEX fact_in_profile ON fact (conversation_id, number)
    WHERE in_profile = 1 AND ended_by IS NULL AND is_done = 0;
