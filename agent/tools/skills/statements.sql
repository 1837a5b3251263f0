-- name: find_skill
SELECT description, body, files FROM skills WHERE name = :name AND is_enabled;
