-- Pays for the model calls of a conversation's summary, gives back what the summary holds, and with p_hold holds tokens
-- and p_cost dollars (NULL: the price is unknown) for its next call, as parley_charge does. The person pays for a direct
-- conversation, the server for a shared one, and the rows of `budgets` that apply pay too.
--
-- p_lease: conversations.summary_claimed_until of the worker that asks. One whose lease is lost pays, but neither takes nor
-- gives back what the next one holds; `is_ours` is false then.
CREATE FUNCTION public.parley_charge_summary(
    p_conversation_id bigint, p_lease timestamptz, p_calls jsonb, p_hold bigint, p_cost numeric DEFAULT NULL,
    OUT is_ours boolean, OUT admitted boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    v_payer public.parley_payer;
BEGIN
    SELECT CASE WHEN is_direct THEN user_id END, id, persona_id, NULL, summary_claimed_until IS NOT DISTINCT FROM p_lease
    INTO v_payer FROM public.conversations WHERE id = p_conversation_id FOR NO KEY UPDATE;
    is_ours := coalesce(v_payer.is_summary, false);
    admitted := coalesce((public.parley_charge(
        v_payer, p_calls, CASE WHEN is_ours THEN p_hold END, p_cost, extract(epoch FROM p_lease - now())
    )).admitted, false);
END
$$;
COMMENT ON FUNCTION public.parley_charge_summary IS
    'Pays for model calls of a summary, from every limit that applies, and holds tokens for the next one.';
