-- name: lock
SELECT id FROM @conversation WHERE id @in(:ids) ORDER BY id {postgres: FOR UPDATE}

-- name: delete_messages
DELETE FROM @message WHERE conversation_id @in(:ids)

-- name: delete_wholes
DELETE FROM @whole WHERE conversation_id @in(:ids)

-- name: delete_records
DELETE FROM @record WHERE conversation_id @in(:ids)

-- name: delete_work
DELETE FROM @work WHERE conversation_id @in(:ids) AND substr(refused, 1, 6) <> 'batch '

-- name: drop_batches
-- A row with a batch of a provider stays until that is dropped, which is due now.
UPDATE @work SET due = 0 WHERE conversation_id @in(:ids)

-- name: delete_ranges
DELETE FROM @shared_range WHERE conversation_id @in(:ids) OR source_id @in(:ids)

-- name: delete_quoting
DELETE FROM @record WHERE number IN (SELECT number FROM @record_ref WHERE conversation_id @in(:ids))

-- name: delete_segments
DELETE FROM @segment WHERE conversation_id @in(:ids) RETURNING conversation_id

-- name: delete_facts
DELETE FROM @fact WHERE conversation_id @in(:ids) RETURNING conversation_id

-- name: delete_pins
DELETE FROM @pin WHERE conversation_id @in(:ids) RETURNING conversation_id

-- name: note_deleted
UPDATE @conversation
SET count = 0, last_user = 0, has_messages = FALSE, is_fork = FALSE,
    generation = generation + CASE WHEN count > 0 OR id @in(:derived) THEN 1 ELSE 0 END,
    revision = revision + CASE WHEN id @in(:derived) THEN 1 ELSE 0 END
WHERE id @in(:ids) AND (count > 0 OR is_fork OR id @in(:derived))

-- name: delete_message
DELETE FROM @message WHERE conversation_id = :id AND position = :position

-- name: delete_whole
DELETE FROM @whole WHERE conversation_id = :id AND position = :position

-- name: delete_pinned
DELETE FROM @pin WHERE conversation_id = :id AND position BETWEEN :first AND :last

-- name: delete_derived
DELETE FROM @record WHERE conversation_id = :id AND derived

-- name: note_loss
UPDATE @conversation SET count = count - :lost, generation = generation + 1, last_user = :last_user,
    revision = revision + :derived
WHERE id = :id RETURNING count

-- name: note_empty
UPDATE @conversation SET has_messages = FALSE WHERE id = :id
