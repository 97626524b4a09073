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
    ({newest_facts}),
    ({ended_texts})
FROM autonomy_ctx.conversation c WHERE c.key = %s

-- name: probe
INSERT INTO autonomy_ctx.health VALUES (1, autonomy_ctx.now_seconds())
ON CONFLICT (id) DO UPDATE SET at = excluded.at
