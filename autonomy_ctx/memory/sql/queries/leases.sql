-- name: find_spoken
SELECT c.id FROM @conversation c WHERE @key(c) AND c.count > 0 {postgres: FOR UPDATE}

-- name: owe
-- Another task is another configuration: what went wrong under the old one says nothing about it.
INSERT INTO @work AS w (conversation_id, task, due) VALUES (:id, :task, @lease_now())
ON CONFLICT (conversation_id) DO UPDATE
SET task = excluded.task, due = excluded.due, attempts = 0, refusals = 0,
    -- The batch of a provider is still to be read or dropped.
    refused = CASE WHEN substr(w.refused, 1, 6) = 'batch ' THEN w.refused ELSE '' END
WHERE w.task <> excluded.task

-- name: select_work
SELECT due, lease_until, @lease_now() FROM @work WHERE conversation_id = :id

-- name: select_due
-- A conversation that somebody else has locked is skipped: it is being worked on, or will be there next time.
{clock}
SELECT c.id, c.agent, c.scope, c.conversation
FROM {of_clock} @work w JOIN @conversation c ON c.id = w.conversation_id
WHERE w.task = :task AND w.due NOT BETWEEN {now} + 1e-6 AND {now} + {longest}
  AND (w.lease_until IS NULL OR w.lease_until NOT BETWEEN {now} + 1e-6 AND {now} + {longest})
ORDER BY w.due LIMIT 1 {postgres: FOR UPDATE OF c SKIP LOCKED}

-- name: select_soonest
-- Times that are not current are of another boot, or long past.
{clock}
SELECT min({greatest}(
    CASE WHEN due BETWEEN {now} AND {now} + {longest} THEN due - {now} ELSE 0 END,
    CASE WHEN lease_until BETWEEN {now} AND {now} + {longest} THEN lease_until - {now} ELSE 0 END))
FROM {of_clock} @work WHERE task = :task

-- name: raise_fence
UPDATE @conversation SET fence = fence + 1 WHERE id = :id RETURNING fence

-- name: lease
UPDATE @work SET owner = :owner, lease_until = :until WHERE conversation_id = :id
RETURNING attempts, refusals, refused

-- name: lock_fence
-- A row of `work` is changed only after its conversation was locked, so there are no deadlocks.
SELECT c.id FROM @conversation c WHERE @key(c) AND c.fence = :fence {postgres: FOR UPDATE}

-- name: extend
UPDATE @work SET lease_until = @lease_now() + :seconds WHERE conversation_id = :id AND owner = :owner

-- name: settle
DELETE FROM @work WHERE conversation_id = :id AND owner = :owner

-- name: postpone
UPDATE @work SET due = @lease_now() + :seconds, attempts = :attempts, refusals = :refusals,
    refused = :refused, owner = NULL, lease_until = NULL
WHERE conversation_id = :id AND owner = :owner

-- name: find_fence
SELECT 1 FROM @conversation c JOIN @work w ON w.conversation_id = c.id
WHERE c.id = :id AND c.fence = :fence AND w.owner IS NOT NULL
