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
