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
