-- name: store_card
UPDATE agents SET card = CAST(:card AS jsonb), card_fetched_at = now(), last_error = NULL WHERE id = :id AND url = :url;

-- name: store_error
UPDATE agents SET last_error = :error WHERE id = :id AND url = :url AND last_error IS DISTINCT FROM :error;
