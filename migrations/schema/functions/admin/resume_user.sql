CREATE FUNCTION admin.resume_user(platform text, account text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
BEGIN
    UPDATE public.users SET paused_at = NULL WHERE id = v_id AND paused_at IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION '% is not paused', account;
    END IF;
    RETURN format('%s is answered again', account);
END
$$;
COMMENT ON FUNCTION admin.resume_user IS 'Ends a pause: admin.resume_user(''discord'', ''ann'').';
