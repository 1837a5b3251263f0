-- Ends the claim of a conversation whose summary failed, and says why. With p_of_facts it is the reading of facts that failed,
-- which waits by itself. The next attempt waits twice as long as the one before, from a minute to six hours.
CREATE FUNCTION public.parley_fail_summary(
    p_id bigint, p_lease timestamptz, p_error text, p_of_facts boolean DEFAULT false
)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_of_facts THEN
        UPDATE public.conversations SET summary_claimed_until = NULL, facts_failures = facts_failures + 1,
            facts_retry_at = now() + interval '1 second' * least(21600, 60 * 2.0 ^ least(facts_failures, 16))
        WHERE id = p_id AND summary_claimed_until = p_lease;
    ELSE
        UPDATE public.conversations SET summary_claimed_until = NULL, summary_failures = summary_failures + 1,
            summary_error = p_error,
            summary_due_at = now() + interval '1 second' * least(21600, 60 * 2.0 ^ least(summary_failures, 16))
        WHERE id = p_id AND summary_claimed_until = p_lease;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_fail_summary IS
    'Ends the claim of a conversation whose summary failed, or its reading of facts; the next attempt waits longer.';
