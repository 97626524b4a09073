-- The messages that a record quotes: it is deleted with any of them. Position 0 is any message of the
-- conversation, conversation 0 any conversation of the scope.
CREATE TABLE autonomy_ctx.record_ref (
    conversation_id bigint NOT NULL,
    position        bigint NOT NULL,
    number          bigint NOT NULL,
    PRIMARY KEY (conversation_id, position, number)
);

CREATE INDEX record_ref_number ON autonomy_ctx.record_ref (number);

CREATE FUNCTION autonomy_ctx.delete_record_refs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM autonomy_ctx.record_ref WHERE number = OLD.number;
    RETURN NULL;
END
$$;

-- A record that is put again gets another number.
CREATE TRIGGER record_deleted AFTER DELETE OR UPDATE OF number ON autonomy_ctx.record
    FOR EACH ROW EXECUTE FUNCTION autonomy_ctx.delete_record_refs();

-- What the contexts of before quote is not known.
INSERT INTO autonomy_ctx.record_ref SELECT 0, 0, number FROM autonomy_ctx.record WHERE derived;
