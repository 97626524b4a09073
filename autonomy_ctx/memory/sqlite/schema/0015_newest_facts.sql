-- The newest facts of each kind are found without the others. Those of users and of the profile are kept apart.
DROP INDEX fact_in_force;
CREATE INDEX fact_in_force ON fact (conversation_id, kind, (source = 'user' OR in_profile), number)
    WHERE ended_by IS NULL AND is_done = 0;

-- What ended last is found without what ended nothing.
CREATE INDEX fact_target ON fact (conversation_id, number) WHERE target IS NOT NULL;
