-- name: select_state
-- Nothing when another embedder is in force.
SELECT s.id, s.removals FROM embedder e CROSS JOIN vector_scope s
WHERE e.number = ? AND s.agent = ? AND s.scope = ?

-- name: select_scope_vectors
SELECT id, conversation_id, position, vector FROM vector
WHERE scope_id = ?1 AND id > ?2 AND embedder = ?3 ORDER BY id

-- name: select_conversation_vectors
-- In the order of the index: by position, not by id.
SELECT id, conversation_id, position, vector FROM vector
WHERE conversation_id = ?1 AND id > ?2 AND embedder = ?3
