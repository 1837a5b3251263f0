-- name: find_question
SELECT asked.id, asked.call_id, asked.tool, asked.arguments, asked.question, asked.reason, asked.agent, asked.status,
       asked.approver_level, asked.expires_at > now() AS is_fresh, message.created_at > asked.created_at AS is_after,
       asked.turn_id = (
           SELECT max(turns.id) FROM turns
           WHERE turns.conversation_id = :conversation_id AND turns.user_id = :user_id AND turns.id < :turn_id
             AND turns.parent_turn_id IS NULL
       ) AS is_last,
       ARRAY(
           SELECT permission_level FROM parley_permissions_in(:approved_by, :conversation_id)
       ) AS approver_permissions
FROM confirmations AS asked JOIN inbox AS message ON message.id = :inbox_id
WHERE asked.conversation_id = :conversation_id AND asked.user_id = :user_id
  AND asked.id = coalesce(CAST(:id AS bigint), asked.id)
ORDER BY asked.id DESC LIMIT 1 FOR UPDATE OF asked;

-- name: close_questions
UPDATE confirmations SET status = 'expired' WHERE conversation_id = :conversation_id AND status = 'pending';

-- name: reserve_id
SELECT nextval(pg_get_serial_sequence('confirmations', 'id'));

-- name: ask_about_command
SELECT parley_ask(:user_id, NULL, NULL, CAST(:question AS jsonb));

-- name: answer
SELECT parley_answer(:id, :user_id, :status, :turn_id, :approved_by);

-- name: find_question_of_command
SELECT id FROM confirmations WHERE user_id = :user_id AND turn_id IS NULL AND status = 'pending';

-- name: use_yes
SELECT * FROM parley_use_yes(:id, :turn_id, :attempt);

-- name: find_used
SELECT confirmations.tool, confirmations.arguments, confirmations.question, confirmations.agent
FROM confirmations JOIN turns ON turns.id = confirmations.answered_turn_id AND turns.user_id = confirmations.user_id
WHERE confirmations.id = :id AND confirmations.status = 'used'
  AND turns.id = :turn_id AND turns.attempt = :attempt AND turns.status = 'running';

-- name: find_asked_user
-- With the roles in which the asked user was seen last, which may be later than the question.
SELECT asked.approver_level, inbox.place_key, inbox.platform, inbox.platform_user_id, inbox.platform_username,
       inbox.platform_context, member_roles.roles
FROM confirmations AS asked JOIN inbox ON inbox.turn_id = asked.turn_id
LEFT JOIN member_roles ON member_roles.platform = inbox.platform AND member_roles.server = inbox.platform_server_id
    AND member_roles.platform_user_id = inbox.platform_user_id
WHERE asked.id = :id ORDER BY inbox.id DESC LIMIT 1;
