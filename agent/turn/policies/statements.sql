-- name: list_tools_of_summary
-- The contents of the turns before the history window; the conversation's summary was written from them.
SELECT array_agg(DISTINCT tool_name) FILTER (
           WHERE role = 'tool_result' AND coalesce(outcome, 'result') = 'result' AND (:is_direct OR user_id = :user_id)
       ) AS tools,
       array_agg(DISTINCT tool_name) FILTER (WHERE outcome = 'failed' AND (:is_direct OR user_id = :user_id)) AS failed,
       coalesce(bool_or(
           role = 'user' AND (user_id IS DISTINCT FROM :user_id OR position(:recording IN content) > 0
                              OR position(:job IN content) > 0 OR position(:forwarded IN content) > 0
                              OR length(content) > :long OR content ~ :marks)
           OR role = 'tool_result' AND (position(:recording IN content) > 0 OR position(:untrusted IN content) > 0)
       ), false) AS has_others
FROM messages
WHERE conversation_id = :conversation_id AND turn_id < :window AND (NOT :is_direct OR user_id = :user_id);

-- name: list_tools_of_child_turns
-- What the child turns of these turns have read. A child turn without a persona ran in another installation.
SELECT array_agg(DISTINCT messages.tool_name) FILTER (
           WHERE messages.role = 'tool_result' AND coalesce(messages.outcome, 'result') = 'result'
       ) AS tools,
       array_agg(DISTINCT messages.tool_name) FILTER (WHERE messages.outcome = 'failed') AS failed,
       coalesce(bool_or(
           turns.persona_id IS NULL
           OR messages.role = 'tool_result' AND position(:untrusted IN messages.content) > 0
       ), false) AS has_strangers
FROM turns JOIN messages ON messages.turn_id = turns.id
WHERE turns.conversation_id = :conversation_id AND turns.parent_turn_id >= :first AND turns.parent_turn_id < :before
  AND (NOT :is_direct OR turns.user_id = :user_id);
