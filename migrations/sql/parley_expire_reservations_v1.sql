-- Gives back what dead turns hold: reservations that have expired. Returns how many there were.
--
-- All people are locked before the first reservation is deleted, in the order of their ids: two of these at once wait
-- for each other instead of ending in a deadlock. Servers come after all people, as everywhere.
CREATE FUNCTION public.parley_expire_reservations_v1() RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_user_ids bigint[];
    v_user_id bigint;
    v_count bigint;
BEGIN
    v_user_ids := ARRAY(
        SELECT DISTINCT user_id FROM public.budget_reservations WHERE expires_at < now() ORDER BY user_id
    );
    FOREACH v_user_id IN ARRAY v_user_ids LOOP
        PERFORM pg_advisory_xact_lock(hashtextextended('budget ' || v_user_id, 0));
    END LOOP;
    PERFORM FROM public.users WHERE users.id = ANY(v_user_ids) ORDER BY users.id FOR NO KEY UPDATE;

    WITH expired AS (
        DELETE FROM public.budget_reservations WHERE user_id = ANY(v_user_ids) AND expires_at < now()
        RETURNING user_id, server_id, tokens
    ), users_changed AS (
        UPDATE public.users SET tokens_reserved = greatest(0, tokens_reserved - sums.tokens)
        FROM (SELECT user_id, sum(tokens) AS tokens FROM expired GROUP BY user_id) AS sums
        WHERE users.id = sums.user_id
    ), servers_changed AS (
        UPDATE public.servers SET tokens_reserved = greatest(0, tokens_reserved - sums.tokens)
        FROM (SELECT server_id, sum(tokens) AS tokens FROM expired GROUP BY server_id) AS sums
        WHERE servers.id = sums.server_id
    )
    SELECT count(*) INTO v_count FROM expired;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION public.parley_expire_reservations_v1 IS
    'Gives back reservations that have expired; returns how many.';
