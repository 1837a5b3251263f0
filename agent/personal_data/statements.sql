-- name: export_accounts
SELECT platform, platform_user_id, platform_username, created_at FROM user_platform_links
WHERE user_id = :user_id ORDER BY id;

-- name: export_memories
SELECT id, scope, source, content, speaker, is_from_bot, said_at, platform, platform_server_id, conversation_id,
       confidence, superseded_by
FROM memories WHERE user_id = :user_id ORDER BY id;

-- name: export_conversations
SELECT id, platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct, started_at, summary
FROM conversations WHERE is_direct AND user_id = :user_id ORDER BY id;

-- name: export_messages
SELECT m.turn_id, m.conversation_id, m.role, m.speaker, m.content, m.created_at
FROM messages AS m JOIN turns AS t ON t.id = m.turn_id
WHERE t.user_id = :user_id AND m.role IN ('user', 'assistant') ORDER BY m.id;

-- name: export_unanswered_messages
-- What no turn has answered, because it waits, was cancelled or came during a pause.
SELECT i.platform, i.platform_server_id, i.platform_channel_id, i.content, i.sent_at, i.status
FROM inbox AS i JOIN user_platform_links AS l USING (platform, platform_user_id)
WHERE l.user_id = :user_id AND hashtext(i.platform_user_id) = hashtext(l.platform_user_id) AND i.turn_id IS NULL
ORDER BY i.id;

-- name: export_confirmations
SELECT turn_id, tool, arguments, question, reason, status, created_at, answered_at FROM confirmations
WHERE user_id = :user_id ORDER BY id;

-- name: export_roles
SELECT platform, server, roles FROM member_roles WHERE user_id = :user_id ORDER BY id;

-- name: export_limits
SELECT kind, period, token_limit, cost_limit, tokens_used, cost_used, resets_at FROM budgets
WHERE user_id = :user_id ORDER BY id;

-- name: export_requests_for_more
SELECT status, tokens, cost, ends_at, created_at, decided_at FROM budget_grants
WHERE asked_by_id = :user_id OR limit_user_id = :user_id ORDER BY id;

-- name: export_feedback
SELECT turn_id, score, comment, created_at FROM feedback WHERE user_id = :user_id ORDER BY id;

-- name: export_scheduled_jobs
SELECT id, conversation_id, action, content, kind, time_zone, starts_at, every, unit, cron, check_tool, check_arguments,
       condition, status, next_due_at, last_due_at, runs, created_at
FROM scheduled_jobs WHERE user_id = :user_id ORDER BY id;

-- name: export_credentials
-- The credentials themselves stay here: whoever gets hold of the archive could use them.
SELECT name, created_at FROM credentials WHERE user_id = :user_id ORDER BY name;

-- name: export_usage
SELECT purpose, model, count(*) AS calls, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
FROM token_logs WHERE user_id = :user_id GROUP BY purpose, model ORDER BY purpose, model;

-- name: export_modules
-- What modules keep, as their functions `parley_export_in_…` return it.
SELECT parley_export_in_modules(:user_id) AS entries;

-- name: export_profile
SELECT id, display_name,
       parley_permission(permission_level, permission_until, permission_after) AS permission_level,
       token_budget_monthly, tokens_used_this_month, budget_reset_at, time_zone, week_start, is_memory_paused, created_at
FROM users WHERE id = :user_id;

-- name: export_files
SELECT id, filename, mime_type, size_bytes, status, created_at FROM file_records WHERE user_id = :user_id ORDER BY id;

-- name: request_erasure
SELECT parley_request_erasure(:user_id);

-- name: find_erasure
SELECT id FROM erasures WHERE user_id = :user_id;

-- name: list_open_erasures
SELECT id FROM erasures WHERE finished_at IS NULL ORDER BY id;

-- name: read_erasure
SELECT id, user_id, created_at, finished_at, erased FROM erasures WHERE id = :id;

-- name: list_files_to_erase
SELECT f.id, f.minio_key FROM file_records AS f JOIN erasures AS e ON e.user_id = f.user_id
WHERE e.id = :id AND e.finished_at IS NULL ORDER BY f.id LIMIT :step;

-- name: erase_files
SELECT parley_erase_files(:id, :file_ids);

-- name: list_own_messages
SELECT inbox.id, inbox.platform, inbox.platform_event_id
FROM inbox JOIN user_platform_links AS l USING (platform, platform_user_id) JOIN erasures AS e ON e.user_id = l.user_id
WHERE e.id = :id AND e.finished_at IS NULL AND hashtext(inbox.platform_user_id) = hashtext(l.platform_user_id)
    AND NOT inbox.is_direct AND inbox.content <> :deleted
ORDER BY inbox.id LIMIT :step;

-- name: list_overheard_messages
-- What the agent received with the question of somebody else alone. Found first and ordered then: for the first rows in
-- order, the planner would read the whole inbox, which mostly has none.
WITH overheard AS MATERIALIZED (
    SELECT inbox.id, inbox.platform, platform_context -> 'earlier' AS earlier, l.platform_user_id
    FROM erasures AS e JOIN user_platform_links AS l ON l.user_id = e.user_id
    JOIN inbox ON inbox.platform = l.platform AND (platform_context -> 'earlier') IS NOT NULL
        AND (platform_context -> 'earlier') @> jsonb_build_array(jsonb_build_object('author_id', l.platform_user_id))
    WHERE e.id = :id AND e.finished_at IS NULL
)
SELECT overheard.id, overheard.platform, quoted ->> 'message_id' AS platform_event_id
FROM overheard CROSS JOIN jsonb_array_elements(earlier) AS quoted
WHERE quoted ->> 'author_id' = platform_user_id AND quoted ->> 'message_id' IS NOT NULL
ORDER BY overheard.id LIMIT :step;

-- name: erase_person
SELECT parley_erase_person(:id);
