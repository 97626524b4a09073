-- name: lock
SELECT pg_advisory_xact_lock(%s)

-- name: has_column
SELECT EXISTS (
    SELECT 1 FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'autonomy_ctx' AND c.relname = 'vector' AND a.attname = 'halfvec'
      AND NOT a.attisdropped
)

-- name: select_extension
-- The schema that pgvector is in; its type for half-precision numbers came with version 0.7.
SELECT n.nspname FROM pg_catalog.pg_extension e
JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
JOIN pg_catalog.pg_type t ON t.typnamespace = n.oid AND t.typname = 'halfvec'
WHERE e.extname = 'vector'

-- name: select_server
SELECT extversion || ' on ' || version() FROM pg_catalog.pg_extension WHERE extname = 'vector'

-- name: select_trial
SELECT passed, autonomy_ctx.now_seconds() - began FROM autonomy_ctx.vector_trial WHERE server = %s

-- name: insert_trial
INSERT INTO autonomy_ctx.vector_trial VALUES (%s, autonomy_ctx.now_seconds(), false)

-- name: update_trial
UPDATE autonomy_ctx.vector_trial SET passed = true WHERE server = %s

-- name: trial_distance
SELECT '[1,2,3]'::{schema}.halfvec OPERATOR({schema}.<#>) '[1,2,3]'::{schema}.halfvec

-- name: has_extension
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_extension WHERE extname = 'vector')

-- name: is_available
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_available_extensions WHERE name = 'vector')

-- name: select_nearest
-- Of vectors of length 1 the inner product is the cosine; pgvector gives it with the other sign.
SELECT conversation_id, position, -distance FROM (
    SELECT v.conversation_id, v.position,
           v.halfvec OPERATOR({schema}.<#>) %(vector)s::{schema}.halfvec AS distance
    FROM {vectors} AND v.embedder = %(embedder)s
      AND EXISTS (SELECT 1 FROM autonomy_ctx.embedder WHERE number = %(embedder)s)
    ORDER BY distance, v.position DESC LIMIT %(limit)s
) hit ORDER BY distance, position DESC

-- name: select_vectors
SELECT v.conversation_id, v.position, v.vector
FROM {vectors} AND v.embedder = %(embedder)s
  AND EXISTS (SELECT 1 FROM autonomy_ctx.embedder WHERE number = %(embedder)s)

-- name: scope_vectors
autonomy_ctx.conversation c JOIN autonomy_ctx.vector v ON v.conversation_id = c.id
WHERE c.scope = %(scope)s AND c.agent = %(agent)s AND c.has_messages

-- name: conversation_vectors
-- A fork has those of its ranges.
autonomy_ctx.conversation c LEFT JOIN autonomy_ctx.shared_range r ON r.conversation_id = c.id
JOIN autonomy_ctx.vector v ON v.conversation_id = coalesce(r.source_id, c.id)
    AND (r.source_id IS NULL OR v.position BETWEEN r.first AND r.last)
WHERE c.key = %(key)s
