-- name: read_commands_hash
SELECT commands_hash FROM bots WHERE id = :bot_id;

-- name: store_commands_hash
UPDATE bots SET commands_hash = :hash WHERE id = :bot_id;
