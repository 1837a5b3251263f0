-- Notes that the facts in what was said up to a turn are drawn, and ends the claim. Returns false, and changes nothing, when the
-- lease has been lost.
CREATE FUNCTION public.parley_store_reading(p_id bigint, p_lease timestamptz, p_last_turn_id bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE public.conversations SET facts_turn_id = p_last_turn_id, summary_claimed_until = NULL, facts_failures = 0,
        facts_retry_at = NULL
    WHERE id = p_id AND summary_claimed_until = p_lease;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION public.parley_store_reading IS 'Notes how far the facts of a claimed conversation are drawn; false when the lease is lost.';
