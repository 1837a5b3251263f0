-- name: number_again
-- In a cell: the ids of tables that were made since, so that no other cell gives them out.
SELECT parley_number_cell(number, name) FROM own_cell;

-- name: find_bot
INSERT INTO bots (platform, token_hash) VALUES (:platform, :token_hash)
ON CONFLICT (platform, token_hash) DO UPDATE SET platform = excluded.platform RETURNING id;
