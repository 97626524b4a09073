-- name: count
SELECT count(*) FROM @conversation WHERE :scope::text IS NULL OR scope = :scope

-- name: select_keys
SELECT id, agent, scope, conversation FROM @conversation
WHERE id > :after AND (:scope::text IS NULL OR scope = :scope) ORDER BY id LIMIT :limit

-- name: select_last_position
SELECT coalesce(max(m.position), 0) FROM @conversation c JOIN @message m ON m.conversation_id = c.id
WHERE @key(c)

-- name: select_messages
SELECT m.position, {message_id}, m.created, m.is_user, m.tokens, m.counter, m.size, m.body, w.body
FROM @conversation c JOIN @message m ON m.conversation_id = c.id
LEFT JOIN @whole w ON w.conversation_id = m.conversation_id AND w.position = m.position
WHERE @key(c) AND m.position > :after AND m.position <= :last ORDER BY m.position LIMIT :limit

-- name: select_ranges
SELECT s.agent, s.scope, s.conversation, r.first, r.last FROM @shared_range r
JOIN @conversation s ON s.id = r.source_id WHERE r.conversation_id = :id ORDER BY r.first

-- name: select_pins
SELECT position, pinned_at, source FROM @pin WHERE conversation_id = :id ORDER BY position

-- name: select_records
SELECT kind, {record_name}, at, derived, body, EXISTS (SELECT 1 FROM @record_ref f WHERE f.number = r.number),
    number
FROM @record r WHERE conversation_id = :id ORDER BY number

-- name: move_head
-- Positions that it had before its messages were deleted are used again: what was read of it is void.
UPDATE @conversation
SET generation = {greatest}(generation, :generation) + CASE WHEN head >= :first THEN 1 ELSE 0 END,
    head = {greatest}(head, :last), count = count + :number, last_user = {greatest}(last_user, :last_user),
    has_messages = TRUE
WHERE id = :id

-- name: rewind_index
-- The search index begins anew there.
{sqlite: UPDATE conversation SET indexed = :first - 1 WHERE id = :id AND indexed >= :first}
{postgres: UPDATE autonomy_ctx.search_progress SET indexed = :first - 1
WHERE conversation_id = :id AND indexed >= :first}

-- name: delete_segments
DELETE FROM @segment WHERE conversation_id = :id

-- name: delete_facts
DELETE FROM @fact WHERE conversation_id = :id

-- name: delete_pins
DELETE FROM @pin WHERE conversation_id = :id

-- name: delete_records
DELETE FROM @record WHERE conversation_id = :id

-- name: delete_ranges
DELETE FROM @shared_range WHERE conversation_id = :id

-- name: update_conversation
UPDATE @conversation
SET head = :head, count = :count, generation = {greatest}(generation, :generation), last_user = :last_user,
    revision = {greatest}(revision + 1, :revision), last_fact = :last_fact, is_fork = :is_fork,
    has_messages = :count > 0
WHERE id = :id
