-- name: claim_summaries
SELECT * FROM parley_claim_conversations(:limit);

-- name: store_summary
SELECT parley_store_summary(
    :id, :lease, :last_active_at, p_last_turn_id => :last_turn_id, p_content => :content, p_model => :model,
    p_has_more => :has_more
) AS is_stored;

-- name: end_claim
SELECT parley_end_claim(:id, :lease, :last_active_at);

-- name: fail_summary
SELECT parley_fail_summary(:id, :lease, :error);

-- name: charge_summary
SELECT * FROM parley_charge_summary(
    p_conversation_id => :id, p_lease => :lease, p_calls => :calls, p_hold => :hold, p_cost => CAST(:cost AS numeric)
);

-- name: lock_claim
-- Locks the conversation, so that nobody claims it between this and the payment.
SELECT id FROM conversations WHERE id = :id AND summary_claimed_until = :lease FOR NO KEY UPDATE;

-- name: forget_summaries
SELECT parley_forget_summaries(p_turn_ids => :turn_ids);

-- name: claim_facts
SELECT * FROM parley_claim_conversations(:limit, :turns, :tokens);

-- name: store_facts
SELECT parley_store_reading(:id, :lease, :last_turn_id) AS is_stored;

-- name: fail_facts
SELECT parley_fail_summary(:id, :lease, NULL, p_of_facts => true);

-- name: read_transcript
-- Up to the first turn that is still running: its answer is part of what was said. In a direct conversation the turns of
-- one person count, as in the history that the model is shown. The journal keeps the text that was answered, with the
-- transcripts of recordings; what was edited since is read from the inbox. In a shared place nobody else was told what
-- the agent said in mid-turn, before tools were called.
SELECT messages.turn_id, messages.created_at AS said_at, messages.role = 'assistant' AS is_bot, messages.speaker,
       messages.content, CASE WHEN messages.role = 'user' THEN typed.content END AS typed, typed.was_edited,
       turns.user_id, typed.message_id,
       turns.id > (SELECT facts_turn_id FROM conversations WHERE id = :id) AS is_unread,
       ARRAY(SELECT id FROM file_records WHERE file_records.turn_id = turns.id ORDER BY id) AS file_ids,
       ARRAY(SELECT filename FROM file_records WHERE file_records.turn_id = turns.id ORDER BY id) AS filenames
FROM turns JOIN messages ON messages.turn_id = turns.id LEFT JOIN LATERAL (
    SELECT string_agg(inbox.content, E'
' ORDER BY sent_at, inbox.id)
               FILTER (WHERE adapter <> ALL(:agents) AND due_job IS NULL) AS content,
           bool_or(edited_at IS NOT NULL) AS was_edited, max(platform_event_id) AS message_id
    FROM inbox WHERE inbox.turn_id = turns.id
) AS typed ON true
WHERE turns.conversation_id = :id AND turns.parent_turn_id IS NULL AND turns.id > :after
  AND turns.id < coalesce((
      SELECT min(running.id) FROM turns AS running
      WHERE running.conversation_id = :id AND running.status = 'running' AND running.parent_turn_id IS NULL
  ), 9223372036854775807)
  AND (NOT :is_direct OR turns.user_id = :user_id)
  AND turns.id <@ (SELECT coalesce(shown_turns, '{(,)}') FROM conversations WHERE id = :id)
  AND NOT EXISTS (SELECT FROM forgotten_turns WHERE forgotten_turns.turn_id = turns.id)
  AND messages.role IN ('user', 'assistant') AND btrim(messages.content) <> ''
  AND (:is_direct OR messages.role = 'user' OR NOT EXISTS (
      SELECT FROM messages AS later
      WHERE later.turn_id = messages.turn_id AND later.seq > messages.seq AND later.role = 'assistant'
  ))
ORDER BY messages.turn_id, messages.seq LIMIT :limit;

-- name: claim_titles
SELECT * FROM parley_claim_titles(:limit);

-- name: lock_turns
-- Before the conversation, as whoever erases a chat or a person locks them.
SELECT id FROM turns WHERE id = ANY(:turn_ids) ORDER BY id FOR KEY SHARE;

-- name: store_title
SELECT parley_store_title(:id, :lease, :turn_id, :title) AS is_stored;
