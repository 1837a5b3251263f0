-- name: begin_branch
SELECT outcome, content, again_of FROM parley_begin_branch(:channel, :place_key, :event_id, :turn_id);

-- name: find_branch
SELECT branch.place, branch.total, branch.previous_id, branch.next_id FROM conversations
CROSS JOIN LATERAL parley_list_branches(conversations.id, ARRAY[CAST(:turn_id AS bigint)]) AS branch
WHERE platform = 'web' AND platform_server_id IS NULL AND platform_thread_id IS NULL AND platform_channel_id = :channel;

-- name: show_branch
SELECT parley_show_branch(:channel, :place_key, :turn_id) AS outcome;
