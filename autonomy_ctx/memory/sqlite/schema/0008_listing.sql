-- Whether a conversation has messages. It changes only with the first and the last one, so that an
-- append need not touch the indexes below, and rows without messages are not in a listing's way.
ALTER TABLE conversation ADD COLUMN has_messages INTEGER NOT NULL DEFAULT 0;

UPDATE conversation SET has_messages = 1 WHERE count > 0;

CREATE INDEX conversation_by_scope ON conversation (scope, agent, conversation) WHERE has_messages;

CREATE INDEX conversation_by_agent ON conversation (agent, scope) WHERE has_messages;
