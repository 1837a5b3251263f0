-- name: act_as
SELECT parley_act_as(:user_id, :account, :is_fresh);

-- name: read_latest_entry
SELECT coalesce(max(id), 0) FROM audit_log;

-- name: list_own_entries
-- What this transaction has written into the audit, the newest first.
SELECT id FROM audit_log WHERE id > :latest AND actor = :account ORDER BY id DESC;

-- name: undo
SELECT admin.undo(:entry);
