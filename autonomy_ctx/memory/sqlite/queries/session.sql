-- name: probe
-- Random: SQLite does not write a page again that stays the same.
REPLACE INTO health VALUES (1, randomblob(?))

-- name: count_commit
UPDATE progress SET commits = commits + 1, messages = messages + ?

-- name: select_progress
SELECT database, commits, messages FROM progress

-- name: has_progress
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'progress'

-- name: ensure_scope
INSERT INTO vector_scope (agent, scope) VALUES (?, ?)
ON CONFLICT (agent, scope) DO UPDATE SET removals = removals RETURNING id

-- name: insert_vector
-- A position is never used again, so what is there under the same id is the same message.
INSERT OR REPLACE INTO vector (scope_id, conversation_id, position, embedder, vector)
SELECT ?1, conversation_id, position, ?2, ?3 FROM message
WHERE conversation_id = ?4 AND position = ?5 AND id = ?6

-- name: delete_vectors
DELETE FROM vector WHERE conversation_id = ?1 AND (?2 IS NULL OR position = ?2)

-- name: count_removal
UPDATE vector_scope SET removals = removals + 1
WHERE (agent, scope) = (SELECT agent, scope FROM conversation WHERE id = ?)
