-- name: mark_commit
-- The row of a writer has the number of its last transaction, which is written before the commit. If the row
-- has no lower number, it becomes null, which it may not: then the commit fails. Nothing is written for a
-- transaction that has changed nothing.
INSERT INTO autonomy_ctx.writer AS w (id, number, at)
SELECT '{writer.id}', {writer.number}, autonomy_ctx.now_seconds()
WHERE pg_current_xact_id_if_assigned() IS NOT NULL
ON CONFLICT (id) DO UPDATE
SET number = CASE WHEN w.number < excluded.number THEN excluded.number END, at = excluded.at;
COMMIT

-- name: find_outcome
-- Waits for a transaction that is under way. If it was not committed, a higher number keeps it from being
-- committed later, such as by a COMMIT that the network has delayed.
INSERT INTO autonomy_ctx.writer AS w (id, number, at)
VALUES ('{writer.id}', {writer.number} + 1, autonomy_ctx.now_seconds())
ON CONFLICT (id) DO UPDATE
SET number = CASE WHEN w.number < {writer.number} THEN excluded.number ELSE w.number END
RETURNING number

-- name: delete_old
-- Writers of processes that have ended: no call takes so long that one of them is still asked for.
DELETE FROM autonomy_ctx.writer WHERE id IN (
    SELECT id FROM autonomy_ctx.writer WHERE at < autonomy_ctx.now_seconds() - 7 * 24 * 3600
    FOR UPDATE SKIP LOCKED);
