-- name: select_scope
-- The number of the scope in the index, if it has one; and whether something of deleted messages may be there.
SELECT {sqlite: (SELECT id FROM search_place WHERE agent = :agent AND scope = :scope),
    (SELECT stage FROM search_purge)}
{postgres: (SELECT number FROM autonomy_ctx.search_scope WHERE key = {scope_key}), 0}

-- name: insert_scope
{sqlite: INSERT OR IGNORE INTO search_place (agent, scope) VALUES (:agent, :scope)}
{postgres: INSERT INTO autonomy_ctx.search_scope (key) VALUES ({scope_key}) ON CONFLICT (key) DO NOTHING}

-- name: select_unindexed
SELECT c.id, c.head FROM @conversation c {index_progress}
WHERE c.agent = :agent AND c.scope = :scope AND c.has_messages AND c.head > {index_position} ORDER BY c.id

-- name: select_unindexed_of
-- The messages that a fork shares are in the index as those of its sources.
SELECT c.id, c.head FROM @conversation c {index_progress}
WHERE c.has_messages AND c.head > {index_position} AND c.id IN (
    SELECT f.id FROM @conversation f WHERE @key(f)
    UNION ALL
    SELECT r.source_id FROM @conversation f JOIN @shared_range r ON r.conversation_id = f.id WHERE @key(f)
) ORDER BY c.id

-- name: select_messages
SELECT m.conversation_id, c.conversation, m.position, {message_id}, m.created, m.tokens, m.counter, m.body
FROM {places} CROSS JOIN @message m JOIN @conversation c ON c.id = m.conversation_id
WHERE m.conversation_id = {place_id}::int8 AND m.position = {place_position}
    AND c.agent = :agent AND c.scope = :scope

-- name: select_state
SELECT c.id, {index_position}, c.generation, c.head
FROM @conversation c {index_progress}
WHERE c.id = :id

-- name: select_block
-- Rows up to the one that fills the block, as one text: with each row that SQLite steps to, a thread may have to
-- wait for the interpreter lock.
SELECT {json_rows}(m.position, {message_id}, m.created, m.tokens, m.counter, m.body, m.size)){postgres: ::text}
FROM (
    SELECT n.*, sum(n.size) OVER (ORDER BY n.position) - n.size AS size_before FROM (
        SELECT * FROM @message WHERE conversation_id = :id AND position > :start
        ORDER BY position LIMIT :rows
    ) n
) m WHERE m.size_before < :size

-- name: lock_conversation
-- This lock lets appends go on; a deletion has to wait, or has raised the generation before.
SELECT generation FROM @conversation WHERE id = :id {postgres: FOR KEY SHARE}

-- name: move_progress
-- Of several that index the same messages one moves the mark; the others wait, and find it moved.
{sqlite: UPDATE conversation AS c SET indexed = :end, folding = :version
    WHERE c.id = :id AND CASE c.folding WHEN :version THEN c.indexed ELSE 0 END = :start}
{postgres: INSERT INTO autonomy_ctx.search_progress AS p (conversation_id, indexed, folding)
    VALUES (:id, :end, :version)
    ON CONFLICT (conversation_id) DO UPDATE SET indexed = excluded.indexed, folding = excluded.folding
    WHERE CASE p.folding WHEN excluded.folding THEN p.indexed ELSE 0 END = :start}
