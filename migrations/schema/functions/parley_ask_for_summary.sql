-- Asks for a conversation's summary at once. While a failed attempt waits to be repeated, nobody asks again.
CREATE FUNCTION public.parley_ask_for_summary(p_id bigint) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    UPDATE public.conversations SET summary_is_urgent = true,
        summary_due_at = CASE WHEN summary_failures = 0 THEN now() ELSE coalesce(summary_due_at, now()) END
    WHERE id = p_id AND NOT summary_is_urgent;
END;
COMMENT ON FUNCTION public.parley_ask_for_summary IS 'Asks for a conversation''s summary without waiting for a pause.';
