-- fragment: page
SELECT id, agent, scope, conversation, count, is_fork FROM @conversation
WHERE has_messages AND scope = :scope

-- fragment: in_order
-- PostgreSQL has only the beginning of a name in the index; what is equal there is sorted, a page at a time.
ORDER BY agent, {postgres: left(conversation, 100),} conversation LIMIT :limit

-- fragment: after_name
{sqlite: conversation > :last_conversation}
{postgres: (left(conversation, 100), conversation) > (left(:last_conversation, 100), :last_conversation)}

-- name: first_page
SELECT {info} FROM ({page} AND TRUE {in_order}) c ORDER BY c.agent, c.conversation

-- name: first_page_of_agent
SELECT {info} FROM ({page} AND agent = :agent {in_order}) c ORDER BY c.agent, c.conversation

-- name: next_page
-- The rest of one agent, then the next agents. As one condition, PostgreSQL would sort all that is left.
SELECT {info} FROM (
    SELECT * FROM (
        SELECT * FROM ({page} AND agent = :last_agent AND {after_name} {in_order}) rest
        UNION ALL SELECT * FROM ({page} AND agent > :last_agent {in_order}) others
    ) page ORDER BY agent, conversation LIMIT :limit
) c ORDER BY c.agent, c.conversation

-- name: next_page_of_agent
SELECT {info} FROM ({page} AND agent = :agent AND {after_name} {in_order}) c
ORDER BY c.agent, c.conversation

-- name: names
-- Each name is the smallest after the one before: conversations of the same name are passed over.
WITH RECURSIVE names (name) AS (
    SELECT min({column}) FROM @conversation WHERE has_messages AND {column} >= :start
    UNION ALL
    SELECT (SELECT min({column}) FROM @conversation WHERE has_messages AND {column} > name)
    FROM names WHERE name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL LIMIT :limit

-- name: names_with_other
WITH RECURSIVE names (name) AS (
    SELECT min({column}) FROM @conversation WHERE has_messages AND {other} = :other AND {column} >= :start
    UNION ALL
    SELECT (SELECT min({column}) FROM @conversation
            WHERE has_messages AND {other} = :other AND {column} > name)
    FROM names WHERE name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL LIMIT :limit

-- name: revisions
SELECT conversation, generation, revision FROM (
    SELECT conversation, generation, revision FROM @conversation
    WHERE has_messages AND agent = :agent AND scope = :scope ORDER BY id DESC LIMIT :limit
) newest WHERE revision > 0
