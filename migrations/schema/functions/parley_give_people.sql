-- The people whom rows of a server name, with their accounts on its platform: only these are told to another cell.
CREATE FUNCTION public.parley_give_people(p_platform text, p_server text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_column record;
    v_ids bigint[] := '{}';
    v_more bigint[];
BEGIN
    FOR v_column IN
        SELECT t.name, t.condition, a.attname FROM public.parley_server_tables() AS t
        JOIN pg_constraint AS c ON c.conrelid = to_regclass('public.' || t.name) AND c.contype = 'f'
            AND c.confrelid = 'public.users'::regclass
        JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        WHERE t.condition IS NOT NULL AND NOT t.is_lost
    LOOP
        EXECUTE format(
            'SELECT array_agg(DISTINCT %1$I) FROM public.%2$I AS own WHERE (%3$s) AND %1$I IS NOT NULL',
            v_column.attname, v_column.name, v_column.condition
        ) INTO v_more USING p_platform, p_server;
        v_ids := v_ids || v_more;
    END LOOP;
    RETURN (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'id', u.id, 'display_name', u.display_name, 'time_zone', u.time_zone, 'week_start', u.week_start,
            'is_memory_paused', u.is_memory_paused, 'paused_at', u.paused_at,
            'accounts', (
                SELECT coalesce(jsonb_agg(jsonb_build_object(
                    'account', l.platform_user_id, 'username', l.platform_username
                ) ORDER BY l.id), '[]')
                FROM public.user_platform_links AS l WHERE l.user_id = u.id AND l.platform = p_platform
            )
        ) ORDER BY u.id), '[]')
        FROM public.users AS u WHERE u.id = ANY (v_ids)
    );
END
$$;
COMMENT ON FUNCTION public.parley_give_people IS 'The people whom rows of a server name, with their accounts on its platform.';
REVOKE EXECUTE ON FUNCTION public.parley_give_people FROM parley_app, parley_admin;
