-- name: select_source
-- Nothing is appended to it, deleted from it or summarized in it until the fork is made; others may fork it.
SELECT c.id, c.last_fact, c.head, c.count, c.generation, c.last_user, c.revision FROM @conversation c
WHERE @key(c) {postgres: FOR SHARE}

-- name: make_fork
-- Of several that fork to the same name one makes the row; the others wait, and find it made.
INSERT INTO @conversation ({postgres: key,} agent, scope, conversation, is_fork)
VALUES ({postgres: :key,} :agent, :scope, :conversation, TRUE) ON CONFLICT DO NOTHING RETURNING id

-- name: select_ranges
SELECT source_id, first, last FROM @shared_range WHERE conversation_id = :id ORDER BY first DESC

-- name: select_forks
SELECT source_id, conversation_id, first, last FROM @shared_range
WHERE source_id @in(:ids) AND conversation_id <> source_id

-- name: count_rows
SELECT count(*) FROM @message WHERE conversation_id = :id AND position BETWEEN :first AND :last

-- name: update_fork
-- A new revision: not that of a conversation that nobody has used.
UPDATE @conversation SET head = :at, count = :count, has_messages = :count > 0, generation = :generation,
    revision = :revision + 1, last_fact = :last_fact, last_user = :last_user
WHERE id = :id

-- name: select_newest_user
SELECT max(position) FROM @message WHERE conversation_id = :id AND is_user AND position BETWEEN :first AND :last

-- name: copy_pins
INSERT INTO @pin (conversation_id, position, pinned_at, source)
SELECT :id, position, pinned_at, source FROM @pin WHERE conversation_id = :source AND position <= :at

-- name: note_indexed
-- The index has its messages as those of the source.
{sqlite: UPDATE conversation SET indexed = :at, folding = :folding WHERE id = :id}
{postgres: INSERT INTO autonomy_ctx.search_progress (conversation_id, indexed, folding)
VALUES (:id, :at, :folding)}

-- name: select_shared_until
SELECT coalesce(max(r.last), 0) FROM @conversation c
JOIN @shared_range r ON r.conversation_id = c.id OR r.source_id = c.id
WHERE @key(c) AND r.source_id <> r.conversation_id

-- name: insert_range
INSERT INTO @shared_range (conversation_id, source_id, first, last) VALUES (:id, :source, :first, :last)
