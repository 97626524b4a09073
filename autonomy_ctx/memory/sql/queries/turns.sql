-- fragment: line
{head}, c.is_fork, c.turn_ticket, c.turn_owner, c.turn_until, c.last_ticket, c.turns_waiting

-- name: lock_line
SELECT {line} FROM @conversation c WHERE @key(c) {postgres: FOR NO KEY UPDATE}

-- name: find_line
SELECT {line} FROM @conversation c WHERE @key(c)

-- name: select_places
SELECT ticket, owner, until FROM @turn_wait WHERE conversation_id = :id ORDER BY ticket

-- name: select_now
-- Asked for when the row is locked, however long that took.
SELECT @lease_now()

-- name: find_record
SELECT 1 FROM @record WHERE conversation_id = :id AND kind = :kind LIMIT 1

-- name: take
UPDATE @conversation SET turn_ticket = :ticket, turn_owner = :owner, turn_until = @lease_now() + :seconds,
    last_ticket = :last_ticket, turns_waiting = :waiting
WHERE id = :id

-- name: release
UPDATE @conversation SET turn_ticket = 0, turn_owner = '', turn_until = 0 WHERE id = :id

-- name: renew_holder
UPDATE @conversation AS c SET turn_until = @lease_now() + :seconds
WHERE @key(c) AND c.turn_ticket = :ticket AND c.turn_owner = :owner

-- name: renew_place
UPDATE @turn_wait SET until = @lease_now() + :seconds
WHERE conversation_id = (SELECT c.id FROM @conversation c WHERE @key(c)) AND ticket = :ticket AND owner = :owner

-- name: keep_place
UPDATE @turn_wait SET until = @lease_now() + :seconds
WHERE conversation_id = :id AND ticket = :ticket AND owner = :owner

-- name: make_place
INSERT INTO @turn_wait (conversation_id, ticket, owner, until)
VALUES (:id, :ticket, :owner, @lease_now() + :seconds)

-- name: delete_places
-- Its own place and the expired places before it.
DELETE FROM @turn_wait WHERE conversation_id = :id AND ticket <= :ticket

-- name: delete_place
DELETE FROM @turn_wait WHERE conversation_id = :id AND ticket = :ticket

-- name: update_line
UPDATE @conversation SET last_ticket = :last_ticket, turns_waiting = :waiting WHERE id = :id
