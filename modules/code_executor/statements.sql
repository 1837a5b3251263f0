-- name: forget_workspaces
-- Whoever is writing one holds it; it is used, then, and stays.
DELETE FROM code_workspaces WHERE id IN (
    SELECT id FROM code_workspaces WHERE used_at < now() - interval '7 days'
    ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED
);

-- name: make_workspace
-- Nothing where the conversation is gone.
INSERT INTO code_workspaces (user_id, conversation_id)
SELECT u.id, c.id FROM users AS u, conversations AS c WHERE u.id = :user_id AND c.id = :conversation_id
ON CONFLICT (user_id, conversation_id) DO NOTHING;

-- name: find_workspace
SELECT file_ids, state FROM code_workspaces
WHERE user_id = :user_id AND conversation_id = :conversation_id AND used_at > now() - interval '7 days';

-- name: lock_workspace
SELECT id, file_ids FROM code_workspaces
WHERE user_id = :user_id AND conversation_id = :conversation_id FOR UPDATE;

-- name: update_workspace
UPDATE code_workspaces SET file_ids = :file_ids, state = coalesce(:state, state), used_at = now() WHERE id = :id;
