-- name: create_terms
CREATE VIRTUAL TABLE IF NOT EXISTS search_term USING fts5 (text, place, tokenize = 'ascii')

-- name: create_forms
CREATE VIRTUAL TABLE IF NOT EXISTS search_form USING fts5 (text, place, tokenize = 'ascii')

-- name: select_two
SELECT 1 FROM conversation WHERE agent = ? AND scope = ? LIMIT 2

-- name: insert_entries
-- One statement for many rows: with each row that SQLite steps to, a thread may have to wait for the
-- interpreter lock.
INSERT INTO search_entry (conversation_id, position) SELECT ?, value FROM json_each(?)

-- name: select_entries
SELECT id FROM search_entry WHERE conversation_id = ? AND position > ? AND position <= ?

-- name: insert_terms
INSERT INTO {table} (rowid, text, place)
SELECT e.id, t.value, 'c' || ?1 FROM json_each(?2) t
CROSS JOIN search_entry e ON e.conversation_id = ?1 AND e.position = CAST(t.key AS INTEGER)

-- name: select_exact_hits
WITH exact AS MATERIALIZED (
    SELECT rowid AS id, -bm25(search_term, 1.0, 0.0) AS score FROM search_term
    WHERE search_term MATCH :exact AND {search_term}
)
SELECT e.conversation_id, e.position, f.score FROM (
    SELECT id, score + CASE WHEN id IN (SELECT rowid FROM search_term WHERE search_term MATCH :all)
        THEN {full_match_gain} * (SELECT max(score) FROM exact) ELSE 0 END AS score
    FROM exact ORDER BY 2 DESC, 1 DESC LIMIT :limit
) f JOIN search_entry e ON e.id = f.id ORDER BY f.score DESC, f.id DESC

-- name: count_rows
SELECT coalesce(max(id), 0) FROM search_entry

-- name: select_newest
SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid DESC LIMIT ?

-- name: select_texts
SELECT e.id, e.conversation_id, e.position, t.text FROM json_each(?) r
CROSS JOIN search_entry e ON e.id = r.value CROSS JOIN search_term t ON t.rowid = e.id
WHERE e.conversation_id != 0

-- name: note_forms
UPDATE search_place SET has_forms = 1 WHERE id = ? AND NOT has_forms

-- name: scope_has_forms
SELECT has_forms FROM search_place WHERE id = ?

-- name: has_forms
SELECT EXISTS (SELECT 1 FROM search_form WHERE search_form MATCH ?)

-- name: select_hits
-- What matches exactly, and what matches in another form. For a single word every exact match comes before all
-- others. For more it takes part in the sum, but the best of the others stays below the best exact one: a form
-- that is rare must not count for more than a word that is common. A message with all words of several comes
-- before every other, however short that one is. The place says which conversation it is,
-- and nothing about how well a message fits.
WITH exact AS (
    SELECT rowid AS id, -bm25(search_term, 1.0, 0.0) AS score FROM search_term
    WHERE search_term MATCH :exact AND {search_term}
), gain AS (
    SELECT id, {full_match_gain} * (SELECT max(score) FROM exact) AS score FROM exact
    WHERE id IN (SELECT rowid FROM search_term WHERE search_term MATCH :all)
), folded AS (
    SELECT rowid AS id, -bm25(search_term, 1.0, 0.0) AS score FROM search_term
    WHERE search_term MATCH :words AND {search_term}
    UNION ALL
    SELECT rowid AS id, -bm25(search_form, 1.0, 0.0) AS score FROM search_form
    WHERE search_form MATCH :forms AND {search_form}
), best AS (
    SELECT (SELECT min(score) FROM exact) AS worst_exact, (SELECT max(score) FROM exact) AS best_exact,
           (SELECT max(score) FROM (SELECT sum(score) AS score FROM folded GROUP BY id)) AS best_folded
), weight AS (
    SELECT CASE
        WHEN best_exact IS NULL THEN 1.0
        WHEN :is_single THEN {folded_weight} * worst_exact / best_folded
        ELSE {folded_weight} * min(1.0, best_exact / best_folded)
    END AS weight FROM best
)
SELECT e.conversation_id, e.position, f.score FROM (
    SELECT id, sum(score) AS score FROM (
        SELECT id, score FROM exact UNION ALL SELECT id, score FROM gain
        UNION ALL SELECT id, score * weight FROM folded CROSS JOIN weight
    ) GROUP BY id ORDER BY 2 DESC, 1 DESC LIMIT :limit
) f JOIN search_entry e ON e.id = f.id ORDER BY f.score DESC, f.id DESC

-- name: is_listed
{table}.rowid NOT IN (SELECT id FROM search_entry WHERE conversation_id = 0)

-- name: is_shared
-- Of a fork: what it has of other conversations, and its own.
EXISTS (
    SELECT 1 FROM search_entry s CROSS JOIN json_each(:ranges) r
    WHERE s.id = {table}.rowid AND s.conversation_id = json_extract(r.value, '$[0]')
      AND s.position BETWEEN json_extract(r.value, '$[1]') AND json_extract(r.value, '$[2]'))

-- name: unlist_entries
UPDATE search_entry SET conversation_id = 0, position = id WHERE conversation_id = ?

-- name: unlist_entry
UPDATE search_entry SET conversation_id = 0, position = id WHERE conversation_id = ? AND position = ?

-- name: set_merge
INSERT INTO {table} ({table}, rank) VALUES ('usermerge', 2)

-- name: merge_index
INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)
