CREATE FUNCTION admin.pause_user(platform text, account text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
BEGIN
    UPDATE public.users SET paused_at = now() WHERE id = v_id AND paused_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION '% is paused already; admin.resume_user ends it', account;
    END IF;
    PERFORM pg_notify('parley_stops', id::text) FROM public.turns WHERE user_id = v_id AND status = 'running';
    UPDATE public.turns SET stop_requested = true WHERE user_id = v_id AND status = 'running';
    RETURN format('%s is paused: no model is asked for them until admin.resume_user(%L, %L)', account, platform, account);
END
$$;
COMMENT ON FUNCTION admin.pause_user IS 'Stops answering a person, who is told so; their running turns end: admin.pause_user(''discord'', ''ann'').';
