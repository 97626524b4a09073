-- name: find
SELECT {head} FROM @conversation c WHERE @key(c)

-- name: lock
-- Others may quote its messages meanwhile (`FOR KEY SHARE`), but not while a deletion has its lock.
SELECT {head} FROM @conversation c WHERE @key(c) {postgres: FOR NO KEY UPDATE}

-- name: make
INSERT INTO @conversation ({postgres: key,} agent, scope, conversation)
VALUES ({postgres: :key,} :agent, :scope, :conversation) ON CONFLICT DO NOTHING

-- name: find_ids
SELECT id FROM @conversation
WHERE scope = :scope AND (:agent::text IS NULL OR agent = :agent)
  AND (:conversation::text IS NULL OR conversation = :conversation)
ORDER BY id

-- name: lock_ids
-- In the same order for all: two that delete at once would wait for each other.
SELECT id FROM @conversation
WHERE scope = :scope AND (:agent::text IS NULL OR agent = :agent)
  AND (:conversation::text IS NULL OR conversation = :conversation)
ORDER BY id {postgres: FOR UPDATE}

-- name: find_messages
SELECT {message_id}, m.position, coalesce(w.body, m.body) FROM {messages_by_id}
LEFT JOIN @whole w ON w.conversation_id = m.conversation_id AND w.position = m.position
WHERE c.id = :id AND m.id @in(:ids)

-- name: find_message
SELECT {message_id}, m.position, coalesce(w.body, m.body) FROM {messages_by_id}
LEFT JOIN @whole w ON w.conversation_id = m.conversation_id AND w.position = m.position
WHERE c.id = :id AND m.id = :message_id

-- name: insert_message
INSERT INTO @message
    (conversation_id, position, id, {postgres: long_id,} created, is_user, tokens, counter, size, body)
VALUES (:conversation_id, :position, :id, {postgres: :long_id,} :created, :is_user, :tokens, :counter, :size,
    :body)
ON CONFLICT DO NOTHING

-- name: delete_after
DELETE FROM @message WHERE conversation_id = :id AND position > :position

-- name: delete_wholes_after
DELETE FROM @whole WHERE conversation_id = :id AND position > :position

-- name: lock_log
SELECT {head}, c.is_fork FROM @conversation c WHERE @key(c) {postgres: FOR NO KEY UPDATE}

-- name: insert_whole
INSERT INTO @whole (conversation_id, position, body) VALUES (:conversation_id, :position, :whole)

-- name: find_place
SELECT m.conversation_id, m.position FROM {messages} WHERE c.id = :id AND m.id = :message_id

-- name: move_head
UPDATE @conversation SET head = :head, count = count + :number, last_user = :last_user WHERE id = :id

-- name: note_first
UPDATE @conversation SET has_messages = TRUE WHERE id = :id

-- name: select_whole
SELECT w.body FROM {messages}
JOIN @whole w ON w.conversation_id = m.conversation_id AND w.position = m.position
WHERE @key(c) AND m.id = :message_id

-- fragment: message_by_place
{sqlite: JOIN message m ON} {postgres: CROSS JOIN LATERAL (
    SELECT * FROM autonomy_ctx.message m WHERE m.position = (p.value ->> 1)::int8 AND}

-- name: select_messages
SELECT c.conversation, m.position, {message_id}, m.created, m.tokens, m.counter, m.body
FROM {places} CROSS JOIN {messages_by_place}
WHERE m.position = {place_position} AND {sqlite: c.agent = :agent AND c.scope = :scope AND c.conversation =}
    {postgres: c.key = sha256({scope_bytes} || '\x00'::bytea || convert_to(} {place_id} {postgres: , 'UTF8'))}

-- name: raise_revision
UPDATE @conversation SET revision = revision + 1, generation = generation + :generations WHERE id = :id

-- name: raise_generation
UPDATE @conversation SET generation = generation + 1 WHERE id = :id
