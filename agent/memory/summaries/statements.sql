-- name: claim_summaries
-- A conversation is over for now when nothing was said for half an hour. Whoever claims it has three minutes.
WITH due AS (
    SELECT id FROM conversations
    WHERE summary_due_at <= now() AND (summary_claimed_until IS NULL OR summary_claimed_until < now())
    ORDER BY summary_due_at LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE conversations SET summary_claimed_until = clock_timestamp() + interval '180 seconds' FROM due
WHERE conversations.id = due.id
RETURNING conversations.id, platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct, user_id,
          summary, summarized_turn_id, summary_claimed_until AS lease, last_active_at, summary_error AS error,
          summary_is_urgent OR last_active_at <= now() - interval '30 minutes' AS is_wanted,
          summary_tokens_held AS tokens_held;

-- name: store_summary
WITH stored AS (
    UPDATE conversations SET summary = :content, summarized_turn_id = :last_turn_id, summary_claimed_until = NULL,
        is_summarized = NOT :has_more AND last_active_at = :last_active_at AND NOT later.is_there,
        summary_is_urgent = :has_more,
        summary_due_at = CASE WHEN :has_more THEN now()
                              WHEN last_active_at <> :last_active_at OR later.is_there
                              THEN parley_summary_time(last_active_at) END,
        summary_failures = 0, summary_error = NULL, facts_turn_id = greatest(facts_turn_id, :last_turn_id),
        facts_failures = 0, facts_retry_at = NULL
    FROM (SELECT EXISTS (
        SELECT FROM turns WHERE conversation_id = :id AND id > :last_turn_id AND parent_turn_id IS NULL
    ) AS is_there) AS later
    WHERE id = :id AND summary_claimed_until = :lease
    RETURNING id
)
INSERT INTO summaries (conversation_id, last_turn_id, content, model)
SELECT id, :last_turn_id, :content, :model FROM stored
ON CONFLICT (conversation_id, last_turn_id) DO UPDATE SET content = excluded.content, model = excluded.model
RETURNING id;

-- name: close_summary
-- Nothing new was said: the summary, if there is one, holds everything.
UPDATE conversations SET summary_claimed_until = NULL, summary_is_urgent = false,
    is_summarized = summary IS NOT NULL AND last_active_at = :last_active_at AND NOT running.is_there,
    summary_due_at = CASE WHEN last_active_at <> :last_active_at OR running.is_there
                     THEN parley_summary_time(last_active_at) END
FROM (SELECT EXISTS (
    SELECT FROM turns WHERE conversation_id = :id AND status = 'running' AND parent_turn_id IS NULL
) AS is_there) AS running
WHERE id = :id AND summary_claimed_until = :lease;

-- name: postpone_summary
UPDATE conversations SET summary_claimed_until = NULL,
    summary_due_at = parley_summary_time(last_active_at)
WHERE id = :id AND summary_claimed_until = :lease;

-- name: fail_summary
-- The next attempt waits twice as long: a minute at first, six hours at most.
UPDATE conversations SET summary_claimed_until = NULL, summary_failures = summary_failures + 1, summary_error = :error,
    summary_due_at = now() + interval '1 second' * least(6 * 3600, 60 * 2.0 ^ least(summary_failures, 16))
WHERE id = :id AND summary_claimed_until = :lease
RETURNING summary_failures;

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
-- What is due for a summary, sooner or later, are the conversations in which something was said since the last one. Facts
-- are drawn when so much was said: turns, or tokens of people and agent together. Only a turn that has ended in the last
-- minutes makes a conversation due; after a pause its summary has the facts.
WITH due AS (
    SELECT id FROM conversations
    WHERE summary_due_at IS NOT NULL AND NOT summary_is_urgent
      AND last_active_at > now() - interval '1 minute'
          * CASE WHEN facts_retry_at IS NULL THEN 5 ELSE 30 END
      AND (summary_claimed_until IS NULL OR summary_claimed_until < now())
      AND (facts_retry_at IS NULL OR facts_retry_at <= now())
      AND EXISTS (
          SELECT FROM (
              SELECT turns.id, (
                  SELECT sum(token_count) FROM messages
                  WHERE messages.turn_id = turns.id AND role IN ('user', 'assistant')
              ) AS tokens
              FROM turns
              WHERE turns.conversation_id = conversations.id AND turns.id > facts_turn_id AND status <> 'running'
                AND parent_turn_id IS NULL AND (NOT is_direct OR turns.user_id = conversations.user_id)
                AND NOT EXISTS (SELECT FROM forgotten_turns WHERE forgotten_turns.turn_id = turns.id)
              ORDER BY turns.id LIMIT :turns
          ) AS said
          HAVING count(*) >= :turns OR sum(tokens) >= :tokens
      )
    ORDER BY last_active_at LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE conversations SET summary_claimed_until = clock_timestamp() + interval '180 seconds' FROM due
WHERE conversations.id = due.id
RETURNING conversations.id, platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct, user_id,
          summary, facts_turn_id, summary_claimed_until AS lease, last_active_at, NULL AS error, true AS is_wanted,
          summary_tokens_held AS tokens_held;

-- name: store_facts
UPDATE conversations SET facts_turn_id = :last_turn_id, summary_claimed_until = NULL, facts_failures = 0,
    facts_retry_at = NULL
WHERE id = :id AND summary_claimed_until = :lease RETURNING id;

-- name: fail_facts
UPDATE conversations SET summary_claimed_until = NULL, facts_failures = facts_failures + 1,
    facts_retry_at = now() + interval '1 second' * least(6 * 3600, 60 * 2.0 ^ least(facts_failures, 16))
WHERE id = :id AND summary_claimed_until = :lease;

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
    SELECT string_agg(inbox.content, E'\n' ORDER BY sent_at, inbox.id)
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
  AND NOT EXISTS (SELECT FROM forgotten_turns WHERE forgotten_turns.turn_id = turns.id)
  AND messages.role IN ('user', 'assistant') AND btrim(messages.content) <> ''
  AND (:is_direct OR messages.role = 'user' OR NOT EXISTS (
      SELECT FROM messages AS later
      WHERE later.turn_id = messages.turn_id AND later.seq > messages.seq AND later.role = 'assistant'
  ))
ORDER BY messages.turn_id, messages.seq LIMIT :limit;
