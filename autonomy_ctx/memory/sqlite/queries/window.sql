-- name: select_conversation
SELECT id, head, count, generation, last_user, revision, is_fork FROM conversation
WHERE agent = ? AND scope = ? AND conversation = ?

-- name: select_rows
SELECT m.position, m.id, m.created, m.tokens, m.counter, m.size, CASE WHEN m.size <= ?4 THEN m.body END FROM message m
WHERE m.conversation_id = ?1 AND m.position > ?2 AND m.position < ?3
ORDER BY m.position DESC LIMIT ?5

-- name: select_fork_rows
-- A fork reads range by range, newest first.
SELECT m.position, m.id, m.created, m.tokens, m.counter, m.size, CASE WHEN m.size <= ?4 THEN m.body END FROM shared_range r
CROSS JOIN message m ON m.conversation_id = r.source_id
    AND m.position BETWEEN max(r.first, ?2 + 1) AND min(r.last, ?3 - 1)
WHERE r.conversation_id = ?1
ORDER BY r.first DESC, m.position DESC LIMIT ?5

-- name: select_block
SELECT json_group_array(json_array(position, id, created, tokens, counter,
    CASE WHEN size <= {large_body_bytes} THEN body END))
FROM (SELECT * FROM message WHERE conversation_id = ? AND position > ? AND position < ?
      ORDER BY position DESC LIMIT ?)

-- name: select_body
SELECT body FROM message WHERE conversation_id = ? AND position = ?

-- name: select_pins
SELECT p.pinned_at, p.source, m.position, m.id, m.created, m.tokens, m.counter, m.body
FROM pin p LEFT JOIN shared_range r ON r.conversation_id = p.conversation_id
    AND p.position BETWEEN r.first AND r.last
JOIN message m ON m.conversation_id = coalesce(r.source_id, p.conversation_id) AND m.position = p.position
WHERE p.conversation_id = ? ORDER BY p.position

-- name: select_pinned_bytes
SELECT coalesce(sum(m.size), 0) FROM pin p LEFT JOIN shared_range r ON r.conversation_id = p.conversation_id
    AND p.position BETWEEN r.first AND r.last
JOIN message m ON m.conversation_id = coalesce(r.source_id, p.conversation_id) AND m.position = p.position
WHERE p.conversation_id = ?
