-- name: insert_pin
-- A pin of a user belongs to the user, also if a model has pinned the message before.
INSERT INTO @pin AS p (conversation_id, position, pinned_at, source) VALUES (:id, :position, @now(), :source)
ON CONFLICT (conversation_id, position) DO UPDATE SET source = 'user'
WHERE excluded.source = 'user' AND p.source <> 'user'

-- name: delete_pin
DELETE FROM @pin WHERE conversation_id = :id AND position = :position
