-- A record that is put gets its number by itself.
ALTER TABLE autonomy_ctx.record ALTER COLUMN number SET DEFAULT nextval('autonomy_ctx.record_number');
