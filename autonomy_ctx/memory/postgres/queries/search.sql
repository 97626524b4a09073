-- name: delete_entries
DELETE FROM autonomy_ctx.search_entry
WHERE conversation_id = %(id)s AND position > %(start)s AND position <= %(end)s

-- name: insert_entries
INSERT INTO autonomy_ctx.search_entry (conversation_id, position, length, terms)
SELECT %s, position, length, terms::tsvector
FROM unnest(%s::int8[], %s::int4[], %s::text[]) AS new (position, length, terms) ORDER BY position

-- name: select_hits
-- Each term is looked for in the index by itself: the planner takes a disjunction of all of them for so much
-- work that it reads every message instead.
-- `ts_rank` of one term with weights of 1 is the sum of 1, 1/4, 1/9 and so on, one for each time that the
-- message has it, by the limit of that sum. This gives back how often that is, and is four times as fast as
-- to unfold the terms of each message; of several terms at once it says nothing, they count as one. Rounded,
-- because equals must not differ by the order of a sum. What matches in another form weighs as in the other
-- stores: for a single word every exact match comes before all others, for more it takes part in the sum, but
-- the best of the others stays below the best exact one. A message with all words comes before every other.
WITH match AS MATERIALIZED (
    SELECT e.conversation_id, e.position, e.number, e.length::float8 AS length, w.place, w.is_exact,
           greatest(1, round(1 / nullif(
               {rank_limit}::float8 * (1 - ts_rank('{{1,1,1,1}}', e.terms, w.term)), 0
           ) - 0.5)) AS frequency
    FROM autonomy_ctx.search_entry e
    JOIN unnest(%(terms)s::tsquery[], %(are_exact)s::bool[]) WITH ORDINALITY
        AS w (term, is_exact, place) ON e.terms @@ w.term
    WHERE {condition}
), weight AS (
    SELECT place, ln(1 + greatest((
        SELECT coalesce(sum(count), 0)::float8 FROM autonomy_ctx.conversation WHERE has_messages AND {those}
    ) - count(*) + 0.5, 0) / (count(*) + 0.5)) AS weight
    FROM match GROUP BY place
), usual AS (SELECT avg(length) AS length FROM match),
part AS (
    SELECT m.conversation_id, m.position, m.number, m.is_exact,
        w.weight * m.frequency * ({bm25_k1} + 1)
        / (m.frequency + {bm25_k1} * (1 - {bm25_b} + {bm25_b} * m.length / usual.length)) AS score
    FROM match m JOIN weight w ON w.place = m.place CROSS JOIN usual
), found AS MATERIALIZED (
    SELECT conversation_id, position, number,
           sum(score) FILTER (WHERE is_exact) AS exact, sum(score) FILTER (WHERE NOT is_exact) AS folded,
           count(*) FILTER (WHERE is_exact) = %(exact_terms)s AND NOT %(is_single)s AS is_full
    FROM part GROUP BY conversation_id, position, number
), folding AS (
    SELECT CASE
        WHEN max(exact) IS NULL THEN 1
        WHEN %(is_single)s THEN {folded_weight} * min(exact) / nullif(max(folded), 0)
        ELSE {folded_weight} * least(1, max(exact) / nullif(max(folded), 0))
    END AS weight, {full_match_gain} * max(exact) AS gain FROM found
), hit AS (
    SELECT conversation_id, position, number,
           round(1e9 * (
               coalesce(exact, 0) + coalesce(folded * folding.weight, 0)
               + CASE WHEN is_full THEN folding.gain ELSE 0 END
           )) / 1e9 AS score
    FROM found CROSS JOIN folding ORDER BY score DESC, number DESC LIMIT %(limit)s
)
SELECT conversation_id, position, score FROM hit ORDER BY score DESC, number DESC
