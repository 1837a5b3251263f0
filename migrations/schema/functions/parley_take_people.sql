-- Finds people of another cell by their accounts (parley_give_people), and makes those who are unknown here; returns their
-- numbers here by their numbers there. A person has a permission and a budget in each cell, and brings none along: who is
-- new is a guest. That somebody is not answered, or not to be remembered, holds here too.
CREATE FUNCTION public.parley_take_people(p_platform text, p_people jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_person jsonb;
    v_account jsonb;
    v_id bigint;
    v_ids jsonb := '{}';
BEGIN
    FOR v_person IN SELECT value FROM jsonb_array_elements(p_people) LOOP
        SELECT l.user_id INTO v_id FROM public.user_platform_links AS l
        WHERE l.platform = p_platform
          AND l.platform_user_id IN (SELECT value ->> 'account' FROM jsonb_array_elements(v_person -> 'accounts'))
        ORDER BY l.user_id LIMIT 1;
        IF v_id IS NULL THEN
            v_account := v_person -> 'accounts' -> 0;
            IF v_account IS NULL THEN
                INSERT INTO public.users DEFAULT VALUES RETURNING id INTO v_id;
            ELSE
                PERFORM public.parley_make_user(p_platform, v_account ->> 'account', v_account ->> 'username');
                SELECT l.user_id INTO v_id FROM public.user_platform_links AS l
                WHERE l.platform = p_platform AND l.platform_user_id = v_account ->> 'account';
            END IF;
            UPDATE public.users SET display_name = v_person ->> 'display_name', time_zone = v_person ->> 'time_zone',
                week_start = v_person ->> 'week_start', is_memory_paused = (v_person -> 'is_memory_paused')::boolean,
                paused_at = (v_person ->> 'paused_at')::timestamptz
            WHERE users.id = v_id;
        END IF;
        PERFORM public.parley_link_account(v_id, p_platform, account.value ->> 'account')
        FROM jsonb_array_elements(v_person -> 'accounts') AS account;
        v_ids := v_ids || jsonb_build_object(v_person ->> 'id', v_id);
    END LOOP;
    RETURN v_ids;
END
$$;
COMMENT ON FUNCTION public.parley_take_people IS
    'Finds or makes people of another cell by their accounts; returns their numbers here by their numbers there.';
REVOKE EXECUTE ON FUNCTION public.parley_take_people FROM parley_app, parley_admin;
