CREATE FUNCTION admin.link_accounts(platform text, account text, to_platform text, to_account text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_moved bigint := admin.find_user(platform, account);
    v_kept bigint := admin.find_user(to_platform, to_account);
BEGIN
    IF v_moved = v_kept THEN
        RAISE EXCEPTION '% and % are the same person already', account, to_account;
    END IF;
    UPDATE public.user_platform_links AS link SET user_id = v_kept
    WHERE link.user_id = v_moved AND link.platform = link_accounts.platform
      AND (link.platform_user_id = account OR lower(link.platform_username) = lower(account));
    RETURN format('%s of %s is an account of %s of %s now: same permission, budget and memories', account, platform, to_account, to_platform);
END
$$;
COMMENT ON FUNCTION admin.link_accounts IS 'Makes an account one of the person who has another one: permission, budget and memories are theirs.';
