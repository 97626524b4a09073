-- name: select_active
SELECT {columns} FROM @segment WHERE conversation_id = :id AND replaced_by IS NULL ORDER BY first

-- name: select_sources
-- The segments that others stand for.
SELECT {columns}, replaced_by FROM @segment WHERE conversation_id = :id AND replaced_by @in(:numbers)

-- name: select_restorable
-- Neither in force nor taken back, but what stood for them is gone.
SELECT {columns} FROM @segment s
WHERE conversation_id = :id AND replaced_by > 0 AND NOT EXISTS (
    SELECT 1 FROM @segment o WHERE o.number = s.replaced_by AND o.conversation_id = s.conversation_id)

-- name: select_newest
SELECT max(number) FROM @segment WHERE conversation_id = :id AND replaced_by IS NULL AND rest_of IS NULL

-- name: restore
UPDATE @segment SET replaced_by = NULL WHERE number @in(:numbers)

-- name: restore_sources
UPDATE @segment SET replaced_by = NULL WHERE conversation_id = :id AND replaced_by = :number

-- name: replace
UPDATE @segment SET replaced_by = :by WHERE number @in(:numbers)

-- name: delete_rests
DELETE FROM @segment WHERE conversation_id = :id AND rest_of = :number

-- name: delete_from
DELETE FROM @segment WHERE conversation_id = :id AND last >= :first

-- name: count_active
SELECT count(*) FROM @segment WHERE conversation_id = :id AND replaced_by IS NULL

-- name: delete_work
DELETE FROM @work WHERE conversation_id = :id AND substr(refused, 1, 6) <> 'batch '

-- name: insert
INSERT INTO @segment (conversation_id, rest_of, created, {names})
VALUES (:id, :rest_of, coalesce(:created::float8, @now()), {values}) RETURNING number
