-- fragment: newest
-- Of each kind the newest that hold. Those of users and of the profile count by themselves: others never push
-- them out.
WITH kinds (kind, is_own) AS (VALUES {kinds}), newest AS (
    SELECT f.* FROM kinds k CROSS JOIN
    {sqlite: fact f ON f.conversation_id = :id AND f.number IN (SELECT f.number}{postgres: LATERAL (SELECT f.*}
        FROM @fact f {sqlite: INDEXED BY fact_in_force}
        WHERE f.conversation_id = :id AND f.kind = k.kind AND (f.source = 'user' OR f.in_profile) = k.is_own
          AND f.ended_by IS NULL AND {is_fact} ORDER BY f.number DESC LIMIT {most}
    ) {postgres: f}
)

-- name: select_newest
-- Each with the one that it stands for.
{newest} SELECT {sqlite: {columns}, {replaced}}
    {postgres: json_agg(json_build_array({columns}, {replaced}) ORDER BY f.number)::text}
FROM newest f LEFT JOIN {sqlite: fact r ON}{postgres: LATERAL (SELECT * FROM autonomy_ctx.fact r WHERE}
    r.conversation_id = f.conversation_id AND r.number = f.target {postgres: LIMIT 1) r ON TRUE}
{sqlite: ORDER BY f.number}

-- name: select_known
-- As one text: with each row that SQLite steps to, a thread may have to wait for the interpreter lock.
{newest} SELECT {json_rows}(known.number, known.source, known.text)){postgres: ::text} FROM (
    SELECT f.number, f.source, f.text FROM newest f UNION
    SELECT f.number, f.source, f.text FROM @fact f
    WHERE f.conversation_id = :id AND f.number @in(:numbers) AND f.ended_by IS NULL AND {is_fact}
    ORDER BY 1
) known

-- name: select_all
SELECT {columns}, CASE WHEN f.ended_by IS NULL THEN NULL ELSE NOT coalesce(e.is_done, FALSE) END
FROM @fact f LEFT JOIN @fact e ON e.conversation_id = f.conversation_id AND e.number = f.ended_by
WHERE f.conversation_id = :id AND {is_fact} ORDER BY f.number

-- name: select_ended_last
SELECT {sqlite: l.*}
    {postgres: json_agg(json_build_array(l.old, l.old_text, l.number, l.text, l.position, l.is_done, l.source))::text}
FROM (
    SELECT f.number AS old, f.text AS old_text, e.number, e.text, e.position, e.is_done, e.source
    FROM @fact e {sqlite: INDEXED BY fact_target CROSS}
    JOIN @fact f ON f.conversation_id = e.conversation_id AND f.number = e.target
    WHERE e.conversation_id = :id AND e.target IS NOT NULL ORDER BY e.number DESC LIMIT {max_ended}
) l

-- name: select_profile
SELECT c.conversation, {columns} FROM @conversation c
{sqlite: CROSS} JOIN @fact f {sqlite: INDEXED BY fact_in_profile} ON f.conversation_id = c.id
WHERE c.agent = :agent AND c.scope = :scope
  AND {sqlite: f.in_profile = 1}{postgres: f.in_profile} AND f.ended_by IS NULL AND {is_fact}
ORDER BY f.created, c.id, f.number

-- name: select_forkable
-- Those that hold at a position or might, the ones they stand for, and the ones that ended them after it.
WITH held AS (
    SELECT f.number, f.target, f.ended_by FROM @fact f {sqlite: INDEXED BY fact_in_force}
    WHERE f.conversation_id = :id AND f.ended_by IS NULL AND {is_fact} AND f.position <= :at
    UNION ALL
    SELECT f.number, f.target, f.ended_by FROM @fact e {sqlite: INDEXED BY fact_position}
    {sqlite: CROSS} JOIN @fact f ON f.conversation_id = e.conversation_id AND f.number = e.target
    WHERE e.conversation_id = :id AND e.position > :covered AND {is_fact} AND f.position <= :at
)
SELECT {columns}, f.ended_by FROM @fact f WHERE f.conversation_id = :id AND f.number IN
    (SELECT number FROM held UNION SELECT target FROM held UNION SELECT ended_by FROM held)

-- name: select_derived
SELECT {columns}, f.ended_by FROM @fact f
WHERE f.conversation_id = :id AND f.source <> 'user' AND f.position BETWEEN :first AND :last

-- name: select_of_segment
SELECT f.number FROM @fact f
WHERE f.conversation_id = :id AND f.source <> 'user' AND f.segment = :segment

-- name: select_lost
-- Of segments that are gone.
SELECT f.number FROM @fact f
WHERE f.conversation_id = :id AND f.source <> 'user' AND f.segment <> 0 AND NOT EXISTS (
    SELECT 1 FROM @segment s WHERE s.number = f.segment AND s.conversation_id = f.conversation_id)

-- name: delete
DELETE FROM @fact WHERE conversation_id = :id AND number @in(:numbers)

-- name: restore_ended
UPDATE @fact SET ended_by = NULL WHERE conversation_id = :id AND ended_by @in(:numbers)

-- name: remove
DELETE FROM @fact WHERE number = (
    SELECT f.number FROM @fact f
    WHERE f.conversation_id = :id AND f.number = :number AND f.ended_by IS NULL AND {is_fact}
) AND conversation_id = :id RETURNING target

-- name: end_fact
UPDATE @fact SET ended_by = :by WHERE conversation_id = :id AND number = :number

-- name: select_last
SELECT last_fact FROM @conversation WHERE id = :id

-- name: update_last
UPDATE @conversation SET last_fact = :last WHERE id = :id

-- name: insert
INSERT INTO @fact (conversation_id, {names}) VALUES (:id, {values})
