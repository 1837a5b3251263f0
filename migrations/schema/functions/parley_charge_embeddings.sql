-- Pays for an embedding call, as parley_charge does: one call embeds texts of many persons. Nothing is reserved before and none
-- is refused: the texts are stored already.
--
-- p_user_ids, p_conversation_ids, p_tokens, p_costs: one entry for each payer; the conversation names the server. Persons who
-- have been deleted meanwhile pay nothing.
CREATE FUNCTION public.parley_charge_embeddings(
    p_model text, p_user_ids bigint[], p_conversation_ids bigint[], p_tokens integer[], p_costs double precision[]
)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_payers public.parley_payer[];
    v_limits public.parley_limits[];
BEGIN
    -- Before all limits: whoever erases a person has locked them before, and those that are gone are not named.
    PERFORM FROM public.conversations WHERE id = ANY (p_conversation_ids) ORDER BY id FOR KEY SHARE;
    SELECT array_agg(one.payer ORDER BY number), array_agg(public.parley_limits_of(one.payer) ORDER BY number)
    INTO v_payers, v_limits
    FROM unnest(p_user_ids, p_conversation_ids) WITH ORDINALITY AS pair (user_id, conversation_id, number)
    LEFT JOIN public.conversations AS place ON place.id = pair.conversation_id
    CROSS JOIN LATERAL (
        SELECT ROW(pair.user_id, place.id, place.persona_id, NULL, false)::public.parley_payer AS payer
    ) AS one;
    -- All limits before the first is changed: see parley_lock_limits.
    PERFORM public.parley_lock_limits(
        p_user_ids, ARRAY(SELECT server_id FROM unnest(v_limits)),
        ARRAY(SELECT budget_id FROM unnest(v_limits) AS one CROSS JOIN LATERAL unnest(one.budget_ids) AS budget_id)
    );
    PERFORM public.parley_charge(v_payers[number], jsonb_build_array(jsonb_build_object(
        'purpose', 'embedding', 'model', p_model, 'input_tokens', p_tokens[number],
        'cost', p_costs[number]::numeric
    )))
    FROM generate_subscripts(v_payers, 1) AS number JOIN public.users ON users.id = p_user_ids[number];
END
$$;
COMMENT ON FUNCTION public.parley_charge_embeddings IS
    'Pays for an embedding call from every limit that applies to the persons whose texts it embeds.';
