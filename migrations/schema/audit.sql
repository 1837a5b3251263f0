-- What admins have changed, and whose memories they have read.

CREATE TABLE audit_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    table_name text NOT NULL,
    row_id bigint NOT NULL,
    action text NOT NULL,
    old_values jsonb,
    new_values jsonb,
    database_user text NOT NULL,
    actor text,
    undoes bigint,
    previous_hash bytea,
    hash bytea NOT NULL,
    CONSTRAINT audit_log_action_is_known CHECK (action IN ('insert', 'update', 'delete', 'read'))
);
COMMENT ON TABLE audit_log IS
    'What was changed of budgets, permissions, personas, agents, servers and sources, and whose memories were read, by '
    'whom. Append-only: each entry holds the hash of the one before.';
COMMENT ON COLUMN audit_log.id IS 'The entry''s number: admin.undo(number).';
COMMENT ON COLUMN audit_log.created_at IS 'When it was changed.';
COMMENT ON COLUMN audit_log.table_name IS 'The table.';
COMMENT ON COLUMN audit_log.row_id IS 'The row''s number there; of memories that were read, whose they are.';
COMMENT ON COLUMN audit_log.action IS 'insert, update or delete; read: somebody''s memories, for the reason in new_values.';
COMMENT ON COLUMN audit_log.old_values IS 'Before: of an update what has changed, of a deletion all; NULL: inserted.';
COMMENT ON COLUMN audit_log.new_values IS 'After: of an update what has changed, of an insertion all; NULL: deleted.';
COMMENT ON COLUMN audit_log.database_user IS 'The role that was connected to the database.';
COMMENT ON COLUMN audit_log.actor IS
    'Who, as the program says: cli, an account such as discord:80351110224678912; NULL: psql.';
COMMENT ON COLUMN audit_log.undoes IS 'The entry that this one takes back.';
COMMENT ON COLUMN audit_log.previous_hash IS 'The hash of the entry before; NULL: the first.';
COMMENT ON COLUMN audit_log.hash IS 'SHA-256 of the entry and of previous_hash.';
CREATE INDEX ix_audit_log_table_name_row_id ON audit_log (table_name, row_id);
-- With the id, or the planner looks for the first undoing through the whole log.
CREATE INDEX ix_audit_log_undoes ON audit_log (undoes, id);
CREATE TRIGGER parley_keep_audit BEFORE DELETE OR UPDATE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION parley_keep_audit();

REVOKE INSERT, UPDATE, DELETE ON audit_log FROM parley_app;
REVOKE INSERT, UPDATE, DELETE ON audit_log FROM parley_admin;
GRANT SELECT ON audit_log TO parley_readonly;
