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

-- name: shared_range
SELECT s.agent, s.scope, s.conversation, r.first, r.last FROM @shared_range r
JOIN @conversation s ON s.id = r.source_id WHERE r.conversation_id = :id ORDER BY r.first

-- name: segment
SELECT {segment} FROM @segment WHERE conversation_id = :id ORDER BY number

-- name: fact
SELECT {fact} FROM @fact WHERE conversation_id = :id ORDER BY number

-- name: pin
SELECT position, pinned_at, source FROM @pin WHERE conversation_id = :id ORDER BY position

-- name: record
SELECT number, kind, {record_name}, at, derived, body,
    EXISTS (SELECT 1 FROM @record_ref f WHERE f.number = r.number)
FROM @record r WHERE conversation_id = :id ORDER BY number

-- name: link
UPDATE @segment SET replaced_by = :replaced_by, rest_of = :rest_of WHERE number = :number

-- name: insert_message
INSERT INTO @message
    (conversation_id, position, id, {postgres: long_id,} created, is_user, tokens, counter, size, body)
VALUES (:conversation_id, :position, :id, {postgres: :long_id,} :created, :is_user, :tokens, :counter, :size,
    :body)

-- name: insert_whole
INSERT INTO @whole (conversation_id, position, body) VALUES (:conversation_id, :position, :whole)

-- name: insert_segment
INSERT INTO @segment (conversation_id, {new_segment}) VALUES (:id, {new_segment_values}) RETURNING number

-- name: insert_fact
INSERT INTO @fact (conversation_id, {fact}) VALUES (:id, {fact_values})

-- name: insert_pin
INSERT INTO @pin (conversation_id, position, pinned_at, source) VALUES (:id, :position, :pinned_at, :source)

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

-- name: delete_segment
DELETE FROM @segment WHERE conversation_id = :id

-- name: delete_fact
DELETE FROM @fact WHERE conversation_id = :id

-- name: delete_pin
DELETE FROM @pin WHERE conversation_id = :id

-- name: delete_record
DELETE FROM @record WHERE conversation_id = :id

-- name: delete_shared_range
DELETE FROM @shared_range WHERE conversation_id = :id

-- name: update_conversation
UPDATE @conversation
SET head = :head, count = :count, generation = {greatest}(generation, :generation), last_user = :last_user,
    revision = {greatest}(revision + 1, :revision), last_fact = :last_fact, is_fork = :is_fork,
    has_messages = :count > 0
WHERE id = :id
