-- name: select_embedder
SELECT number, name, dimensions {postgres: , has_halfvec} FROM @embedder

-- name: insert_embedder
INSERT INTO @embedder (number, name, dimensions {postgres: , has_halfvec})
VALUES (1, :name, :dimensions {postgres: , :has_halfvec})

-- name: update_embedder
UPDATE @embedder
SET number = :number, name = :name, dimensions = :dimensions {postgres: , has_halfvec = :has_halfvec}

-- name: select_unembedded
SELECT c.id, c.conversation, c.head, coalesce(p.embedded, 0)
FROM @conversation c LEFT JOIN @vector_progress p ON p.conversation_id = c.id AND p.embedder = :embedder
WHERE c.has_messages AND c.agent = :agent AND c.scope = :scope AND c.head > coalesce(p.embedded, 0)
ORDER BY c.id LIMIT :limit

-- name: select_unembedded_of
SELECT c.id, c.conversation, c.head, coalesce(p.embedded, 0)
FROM @conversation c LEFT JOIN @vector_progress p ON p.conversation_id = c.id AND p.embedder = :embedder
WHERE c.has_messages AND @key(c) AND c.head > coalesce(p.embedded, 0)

-- name: select_rows
SELECT m.position, {message_id}, m.created, m.tokens, m.counter, m.body FROM @message m
WHERE m.conversation_id = :id AND m.position > :start ORDER BY m.position LIMIT :limit

-- name: find_id
SELECT id FROM @conversation c WHERE @key(c)

-- name: lock_ids
-- This lock lets appends go on; a deletion has to wait, or has taken its messages before.
SELECT id FROM @conversation WHERE id @in(:ids) ORDER BY id {postgres: FOR KEY SHARE}

-- name: move_progress
-- Of several that embed the same messages one moves the mark; the others wait, and find it moved.
INSERT INTO @vector_progress AS p (conversation_id, embedder, embedded) VALUES (:id, :embedder, :end)
ON CONFLICT (conversation_id) DO UPDATE SET embedder = excluded.embedder, embedded = excluded.embedded
WHERE CASE WHEN p.embedder = excluded.embedder THEN p.embedded ELSE 0 END = :start

-- name: delete_outdated
DELETE FROM @vector {sqlite: WHERE id IN (SELECT id FROM vector WHERE embedder < :embedder LIMIT :limit)}
{postgres: v USING (
    SELECT conversation_id, position FROM autonomy_ctx.vector WHERE embedder < :embedder LIMIT :limit
    FOR UPDATE SKIP LOCKED
) d WHERE v.conversation_id = d.conversation_id AND v.position = d.position}
