-- The newest facts of each kind are found without the others. Those of users and of the profile are kept apart.
ALTER TABLE autonomy_ctx.fact ALTER COLUMN kind TYPE text COLLATE "C";
DROP INDEX autonomy_ctx.fact_in_force;
CREATE INDEX fact_in_force ON autonomy_ctx.fact (conversation_id, kind, (source = 'user' OR in_profile), number)
    WHERE ended_by IS NULL AND NOT is_done;

-- What ended last is found without what ended nothing.
CREATE INDEX fact_target ON autonomy_ctx.fact (conversation_id, number) WHERE target IS NOT NULL;

-- The newest conversations of a scope, without the others.
DROP INDEX autonomy_ctx.conversation_by_agent;
CREATE INDEX conversation_by_agent ON autonomy_ctx.conversation (agent, scope, id) WHERE has_messages;
