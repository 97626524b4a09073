-- name: select_mark
-- Each half ends at the first row that it finds, and the second is asked only when the first has none.
SELECT * FROM (SELECT position, created, is_user FROM @message
    WHERE conversation_id = :id AND position BETWEEN :first AND :last AND is_user ORDER BY position LIMIT 1) u
UNION ALL
SELECT * FROM (SELECT position, created, is_user FROM @message
    WHERE conversation_id = :id AND position BETWEEN :first AND :last ORDER BY position LIMIT 1) a
LIMIT 1

-- name: select_segments
SELECT {segment}, replaced_by FROM @segment WHERE conversation_id = :id ORDER BY number

-- name: select_done
SELECT target, position, created, source FROM @fact
WHERE conversation_id = :id AND is_done AND target IS NOT NULL ORDER BY number

-- name: select_work
SELECT due - @lease_now(), @now(), attempts, refusals, owner IS NOT NULL FROM @work WHERE conversation_id = :id
