-- name: has_tables
-- From the catalogue, not by `to_regclass`: that may answer from before others have made the tables.
SELECT EXISTS (
    SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'autonomy_ctx' AND c.relname = 'schema_version')

-- name: has_schema
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'autonomy_ctx')

-- name: select_version
SELECT version, database FROM autonomy_ctx.schema_version

-- name: create_version
-- One row: how new the tables are, and which database this is.
CREATE TABLE autonomy_ctx.schema_version (version integer NOT NULL, database text NOT NULL);
INSERT INTO autonomy_ctx.schema_version VALUES (0, gen_random_uuid()::text);
