-- name: list_persona_models
SELECT DISTINCT default_model FROM personas WHERE default_model IS NOT NULL;

-- name: find_owner
SELECT admin.users.name, permission FROM admin.users JOIN user_platform_links AS link ON link.user_id = users.id WHERE link.platform = 'web' AND platform_user_id = :account;

-- name: end_grants
-- Permissions that have ended count no more; this only says so in the table.
SELECT parley_end_grants();
