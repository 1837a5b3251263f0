-- Refuses what an admin by a role of one server (parley_act_on_server) may not: a change of anything that does not belong to that
-- server. A persona may come to it from nowhere, and go: but what it is stays.
CREATE FUNCTION public.parley_check_reach(p_table text, p_old jsonb, p_new jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_place constant text[] := '{platform,platform_server_id,platform_channel_id}';
    v_limit jsonb;
    v_row jsonb;
    v_is_within boolean := true;
BEGIN
    FOREACH v_row IN ARRAY array_remove(ARRAY[p_old, p_new], NULL) LOOP
        v_limit := v_row;
        IF p_table = 'budget_grants' THEN
            SELECT to_jsonb(s) INTO v_limit FROM public.servers AS s WHERE s.id = (v_row ->> 'limit_server_id')::bigint;
            IF NOT FOUND THEN
                SELECT to_jsonb(b) INTO v_limit FROM public.budgets AS b WHERE b.id = (v_row ->> 'limit_budget_id')::bigint;
            END IF;
        END IF;
        -- What was granted on top of a limit goes with it, and the limit's row is checked itself.
        v_is_within := v_is_within AND (
            public.parley_reaches(v_limit ->> 'platform', v_limit ->> 'platform_server_id')
            OR (p_table = 'personas' AND v_limit ->> 'platform' IS NULL)
            OR (p_table = 'budget_grants' AND v_limit IS NULL AND p_new IS NULL AND v_row ->> 'limit_user_id' IS NULL)
        );
    END LOOP;
    IF NOT v_is_within OR (p_table = 'personas' AND (p_old - v_place) IS DISTINCT FROM (p_new - v_place)) THEN
        RAISE EXCEPTION 'a role of this server lets you change what belongs to this server alone';
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_check_reach IS
    'Refuses an admin by a role of one server the change of what does not belong to that server.';
