-- name: add
-- To a fork it appends nothing and gives no head: an id that it shares has to be looked for.
WITH head AS (
    INSERT INTO autonomy_ctx.conversation AS c
        (key, agent, scope, conversation, head, count, last_user, has_messages{columns})
    VALUES (%(key)s, %(agent)s, %(scope)s, %(conversation)s, %(number)s, %(number)s, %(last_user)s,
        %(number)s > 0{values})
    ON CONFLICT (key) DO UPDATE SET {moves}{changes}
    WHERE NOT c.is_fork AND {condition}
    RETURNING c.id, c.head, c.count, c.generation, c.last_user, c.revision, c.turn_ticket, c.turns_waiting

-- name: change
-- A new conversation is never begun by it.
WITH head AS (
    UPDATE autonomy_ctx.conversation c SET {moves}{changes}
    WHERE c.key = %(key)s AND NOT c.is_fork AND {condition}
    RETURNING c.id, c.head, c.count, c.generation, c.last_user, c.revision, c.turn_ticket, c.turns_waiting

-- name: moves
head = c.head + %(number)s, count = c.count + %(number)s, has_messages = c.has_messages OR %(number)s > 0,
last_user = CASE WHEN %(last_user)s > 0 THEN c.head + %(last_user)s ELSE c.last_user END

-- name: ends_there
(%(after)s::int8 IS NULL OR c.head = %(after)s)

-- name: is_free
c.turn_ticket = 0 AND c.turns_waiting = 0 AND NOT EXISTS (
    SELECT 1 FROM autonomy_ctx.record r WHERE r.conversation_id = c.id AND r.kind = %(unless)s)

-- name: is_held
c.turn_ticket = %(ticket)s AND c.turn_owner = %(owner)s

-- name: take
, turn_ticket = c.last_ticket + 1, last_ticket = c.last_ticket + 1,
turn_owner = %(owner)s, turn_until = autonomy_ctx.now_seconds() + %(seconds)s

-- name: release
, turn_ticket = 0, turn_owner = '', turn_until = 0

-- name: turn_columns
, turn_ticket, last_ticket, turn_owner, turn_until

-- name: turn_values
, 1, 1, %(owner)s, autonomy_ctx.now_seconds() + %(seconds)s

-- name: insert_messages
-- After a `head` that was moved.
), new AS (
    INSERT INTO autonomy_ctx.message
        (conversation_id, position, id, long_id, created, is_user, tokens, counter, size, body)
    SELECT head.id, head.head - %(number)s + d.number,
        d.id, d.long_id, d.created, d.is_user, d.tokens, d.counter, d.size, d.body
    FROM head, unnest(%(id)s::text[], %(long_id)s::text[], %(created)s::int8[], %(is_user)s::bool[],
        %(tokens)s::int8[], %(counter)s::text[], %(size)s::int8[], %(body)s::text[])
        WITH ORDINALITY AS d (id, long_id, created, is_user, tokens, counter, size, body, number)

-- name: insert_wholes
), whole AS (
    INSERT INTO autonomy_ctx.whole (conversation_id, position, body)
    SELECT head.id, head.head - %(number)s + d.number, d.body
    FROM head, unnest(%(whole)s::text[]) WITH ORDINALITY AS d (body, number) WHERE d.body IS NOT NULL

-- name: select_begun
SELECT head.head, head.count, head.generation, head.last_user, head.revision, head.turn_ticket,
    (SELECT json_agg(json_build_array(r.number, coalesce(r.long_name, r.name), r.at, r.body)
                     ORDER BY r.number)::text
     FROM autonomy_ctx.record r WHERE r.conversation_id = head.id AND r.kind = %(records)s)
FROM head

-- name: select_head
SELECT head.head, head.count, head.generation, head.last_user, head.revision FROM head

-- name: notify_waiting
SELECT head.head, head.count, head.generation, head.last_user, head.revision,
    CASE WHEN turns_waiting > 0 THEN pg_notify(%(channel)s, %(topic)s) END FROM head

-- name: insert_beside
-- One record beside messages, in the statement that moves the `head` of their conversation. What is expected
-- is looked up without a lock: only the holder of the turn writes it, or a deletion, which changes the
-- generation.
), stored_{index} AS (
        INSERT INTO autonomy_ctx.record (number, conversation_id, kind, name, long_name, at, derived, body)
        SELECT nextval('autonomy_ctx.record_number'), head.id, %(kind_{index})s, %(name_{index})s,
            %(long_name_{index})s, autonomy_ctx.now_seconds(), %(derived_{index})s, %(body_{index})s
        FROM head WHERE (%(generation_{index})s::int8 IS NULL OR head.generation = %(generation_{index})s)
        AND (%(expected_{index})s::text IS NULL OR %(expected_{index})s = coalesce(
            (SELECT e.body FROM autonomy_ctx.record e WHERE e.conversation_id = head.id
             AND e.kind = %(expected_kind_{index})s AND e.name = %(expected_name_{index})s), %(nothing)s))
        ON CONFLICT ON CONSTRAINT record_name DO UPDATE SET
            number = excluded.number, at = excluded.at, derived = excluded.derived, body = excluded.body
        RETURNING conversation_id

-- name: delete_beside
-- This statement does not see the new record, which is one of those that are kept.
), dropped_{index} AS (
        DELETE FROM autonomy_ctx.record r USING stored_{index} stored
        WHERE r.conversation_id = stored.conversation_id AND r.kind = %(kind_{index})s
        AND r.name <> %(name_{index})s AND r.number <=
            (SELECT o.number FROM autonomy_ctx.record o
             WHERE o.conversation_id = stored.conversation_id AND o.kind = %(kind_{index})s
             AND o.name <> %(name_{index})s
             ORDER BY o.number DESC LIMIT 1 OFFSET %(others_{index})s)
