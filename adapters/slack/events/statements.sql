-- name: is_agent_view
-- After a restart: in the agent messaging experience every direct conversation is a thread.
SELECT bool_and(platform_thread_id IS NOT NULL) FROM (
    SELECT platform_thread_id FROM conversations
    WHERE platform = 'slack' AND platform_server_id = :team AND is_direct ORDER BY last_active_at DESC LIMIT 5
) AS latest;

-- name: list_teams
-- Those too that may have gone from here before they were read.
SELECT platform_server_id AS team FROM conversations
WHERE platform = 'slack' AND platform_server_id IS NOT NULL
  AND last_active_at > now() - :hours * interval '1 hour' - interval '30 days'
UNION
SELECT platform_server_id FROM cell_servers WHERE platform = 'slack' AND state <> 'here';

-- name: list_channels
-- Slack is not asked for all channels: only those with a recent conversation are read, the latest first. What was
-- written in a place is at most CATCH_UP_HOURS old, but the place itself may have been quiet for longer before.
SELECT platform_channel_id AS channel, bool_and(is_direct) AS is_direct FROM conversations
WHERE platform = 'slack' AND platform_server_id = :team
  AND last_active_at > now() - :hours * interval '1 hour' - interval '30 days'
GROUP BY platform_channel_id ORDER BY max(last_active_at) DESC;

-- name: list_threads
SELECT platform_channel_id AS channel, platform_thread_id AS thread, is_direct FROM conversations
WHERE platform = 'slack' AND platform_thread_id IS NOT NULL AND platform_server_id = :team
  AND last_active_at > now() - :hours * interval '1 hour' - interval '3 days'
ORDER BY last_active_at DESC;

-- name: find_groups
SELECT EXISTS (SELECT FROM role_grants WHERE platform = 'slack' AND server = asked.team_id) AS has_grants,
       known.id IS NOT NULL AS is_known, coalesce(known.changes, 0) AS changes,
       coalesce(known.read_at > now() - :fresh * interval '1 second', false) AS is_fresh,
       ARRAY(SELECT group_id FROM slack_group_members WHERE list_id = known.id AND platform_user_id = asked.account
             ORDER BY group_name, group_id) AS ids,
       ARRAY(SELECT group_name FROM slack_group_members WHERE list_id = known.id AND platform_user_id = asked.account
             ORDER BY group_name, group_id) AS names
FROM unnest(CAST(:team_ids AS text[]), CAST(:accounts AS text[])) WITH ORDINALITY AS asked (team_id, account, number)
LEFT JOIN slack_group_lists AS known ON known.team_id = asked.team_id
ORDER BY number;

-- name: mark_read
-- A list that was read before a concurrent change is discarded.
INSERT INTO slack_group_lists (team_id, read_at) VALUES (:team_id, now())
ON CONFLICT (team_id) DO UPDATE SET read_at = now() WHERE slack_group_lists.changes = :changes
RETURNING id;

-- name: delete_members
DELETE FROM slack_group_members WHERE list_id = :list_id;

-- name: insert_members
INSERT INTO slack_group_members (list_id, platform_user_id, group_id, group_name)
SELECT :list_id, account, id, name FROM jsonb_to_recordset(CAST(:members AS jsonb)) AS given
    (account text, id text, name text)
ON CONFLICT DO NOTHING;

-- name: mark_changed
-- A removed member loses the group at once, whenever the groups are read again. Two statements, so that the second one
-- sees the rows of a concurrent refresh that the first one has waited for.
INSERT INTO slack_group_lists (team_id, changes) VALUES (:team_id, 1)
ON CONFLICT (team_id) DO UPDATE SET changes = slack_group_lists.changes + 1, read_at = NULL RETURNING id;

-- name: remove_members
DELETE FROM slack_group_members WHERE list_id = :list_id AND group_id = :group_id
  AND (CAST(:removed AS text[]) IS NULL OR platform_user_id = ANY(CAST(:removed AS text[])));
