-- name: select_window
-- One statement is one snapshot: the head and the rows it was read with, newest first.
SELECT c.head, c.count, c.generation, c.last_user, c.revision,
       m.position, coalesce(m.long_id, m.id), m.created, m.tokens, m.counter, m.body, c.is_fork
FROM autonomy_ctx.conversation c
LEFT JOIN LATERAL (
    SELECT * FROM autonomy_ctx.message m
    WHERE NOT c.is_fork AND m.conversation_id = c.id
      AND m.position > %(after)s AND m.position < %(before)s
    ORDER BY m.position DESC LIMIT %(limit)s
) m ON true
WHERE c.key = %(key)s

-- name: select_fork_window
-- From each of its ranges no more rows than are wanted of all.
SELECT c.head, c.count, c.generation, c.last_user, c.revision,
       m.position, coalesce(m.long_id, m.id), m.created, m.tokens, m.counter, m.body, c.is_fork
FROM autonomy_ctx.conversation c
LEFT JOIN LATERAL (
    SELECT m.* FROM autonomy_ctx.shared_range r CROSS JOIN LATERAL (
        SELECT * FROM autonomy_ctx.message m
        WHERE m.conversation_id = r.source_id
          AND m.position BETWEEN greatest(r.first, %(after)s + 1) AND least(r.last, %(before)s - 1)
        ORDER BY m.position DESC LIMIT %(limit)s
    ) m
    WHERE r.conversation_id = c.id ORDER BY r.first DESC, m.position DESC LIMIT %(limit)s
) m ON true
WHERE c.key = %(key)s AND c.is_fork

-- name: select_summary
-- Everything in one statement: one round trip, and one snapshot.
SELECT c.head, c.count, c.generation, c.last_user, c.revision,
    (SELECT json_agg(json_build_array({segment_columns}) ORDER BY first)::text
     FROM autonomy_ctx.segment WHERE conversation_id = c.id AND replaced_by IS NULL),
    (SELECT json_agg(json_build_array(
         p.pinned_at, p.source,
         m.position, coalesce(m.long_id, m.id), m.created, m.tokens, m.counter, m.body
     ) ORDER BY m.position)::text
     FROM autonomy_ctx.pin p
     LEFT JOIN autonomy_ctx.shared_range r
         ON r.conversation_id = p.conversation_id AND p.position BETWEEN r.first AND r.last
     JOIN autonomy_ctx.message m
         ON m.conversation_id = coalesce(r.source_id, p.conversation_id) AND m.position = p.position
     WHERE p.conversation_id = c.id),
    (SELECT json_agg(json_build_array({columns_of_fact}) ORDER BY h.number)::text
     FROM autonomy_ctx.fact h
     JOIN autonomy_ctx.fact f ON f.conversation_id = h.conversation_id AND f.number = h.target
     WHERE h.conversation_id = c.id AND h.ended_by IS NULL AND NOT h.is_done),
    (SELECT json_agg(json_build_array({columns_of_fact}) ORDER BY f.number)::text
     FROM autonomy_ctx.fact f
     WHERE f.conversation_id = c.id AND f.ended_by IS NULL AND NOT f.is_done),
    (SELECT json_agg(json_build_array(
         e.old, e.old_text, e.number, e.text, e.position, e.is_done, e.source))::text
     FROM (SELECT f.number AS old, f.text AS old_text, e.*
           FROM autonomy_ctx.fact e
           JOIN autonomy_ctx.fact f ON f.conversation_id = e.conversation_id AND f.number = e.target
           WHERE e.conversation_id = c.id AND e.target IS NOT NULL
           ORDER BY e.number DESC LIMIT {max_ended_texts}) e)
FROM autonomy_ctx.conversation c WHERE c.key = %s

-- name: probe
INSERT INTO autonomy_ctx.health VALUES (1, autonomy_ctx.now_seconds())
ON CONFLICT (id) DO UPDATE SET at = excluded.at
