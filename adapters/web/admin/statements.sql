-- name: act_as
SELECT parley_act_as(:user_id, :account, :is_fresh);
