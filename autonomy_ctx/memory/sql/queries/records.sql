-- name: delete_named
DELETE FROM @record WHERE conversation_id = :id AND kind = :kind AND name @in(:names)

-- name: delete_oldest
DELETE FROM @record WHERE conversation_id = :id AND kind = :kind AND number <= (
    SELECT number FROM @record WHERE conversation_id = :id AND kind = :kind
    ORDER BY number DESC LIMIT 1 OFFSET :keep)

-- name: select_body
SELECT body FROM @record WHERE conversation_id = :id AND kind = :kind AND name = :name

-- name: update_newest
UPDATE @record SET at = @now(), {sqlite: size = :size,} derived = :derived, body = :body
WHERE conversation_id = :id AND kind = :kind AND name = :name AND body = :expected
    AND number = (SELECT max(number) FROM @record WHERE conversation_id = :id AND kind = :kind)

-- name: lock_in_order
SELECT id FROM @conversation WHERE id @in(:ids) ORDER BY id {postgres: FOR KEY SHARE}

-- name: lock_quoted
-- No deletion can have this lock at the same time: it has happened by now, or it sees what is put here.
SELECT c.id, c.generation FROM @conversation c WHERE @key(c) {postgres: FOR KEY SHARE}

-- name: find_quoted
SELECT 1 FROM {messages} WHERE c.id = :id AND m.position = :position

-- name: lock_quotes
SELECT 1 FROM @conversation WHERE id = :id {postgres: FOR UPDATE}

-- name: delete_quoting
-- Position 0 is any of a conversation.
DELETE FROM @record WHERE number IN (
    SELECT number FROM @record_ref WHERE conversation_id = :id AND position = 0
    UNION ALL
    SELECT number FROM @record_ref WHERE conversation_id = :id AND position BETWEEN :first AND :last)

-- name: delete_unknown
-- Those of which it is not known what they quote.
DELETE FROM @record WHERE number IN (SELECT number FROM @record_ref WHERE conversation_id = 0)
AND conversation_id IN (SELECT id FROM @conversation WHERE scope = :scope)

-- name: select_newest
SELECT r.number, {record_name}, r.at, {size}, {body} FROM @conversation c
JOIN @record r ON r.conversation_id = c.id
WHERE @key(c) AND r.kind = :kind AND r.number > :after ORDER BY r.number DESC LIMIT :limit

-- name: select_named
SELECT r.number, {record_name}, r.at, {size}, {body} FROM @conversation c
JOIN @record r ON r.conversation_id = c.id
WHERE @key(c) AND r.kind = :kind AND r.number > :after AND r.name = :name LIMIT :limit

-- name: drop
DELETE FROM @record WHERE conversation_id = :id AND kind = :kind AND (:before::float8 IS NULL OR at < :before)
RETURNING number, {own_name}

-- name: drop_named
DELETE FROM @record WHERE conversation_id = :id AND kind = :kind AND (:before::float8 IS NULL OR at < :before)
    AND name @in(:names)
RETURNING number, {own_name}

-- name: insert
INSERT INTO @record (conversation_id, kind, name, {postgres: long_name,} at, derived, {sqlite: size,} body)
VALUES (:id, :kind, :name, {postgres: :long_name,} coalesce(:at::float8, @now()), :derived, {sqlite: :size,} :body)
RETURNING number

-- name: insert_ref
INSERT INTO @record_ref (conversation_id, position, number) VALUES (:conversation_id, :position, :number)
