-- Trigger: somebody stays owner, not only until a date. Whoever is being erased by their own wish goes also as the last one.
-- Runs with the rights of its owner, because not every role sees all people.
CREATE FUNCTION public.parley_keep_owner() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Two owners who demote each other at the same time would otherwise both find the other one.
    PERFORM pg_advisory_xact_lock(hashtextextended('parley_owners', 0));
    IF NOT EXISTS (SELECT FROM public.users WHERE permission_level = 'owner' AND permission_until IS NULL AND id <> OLD.id)
       AND NOT EXISTS (SELECT FROM public.erasures WHERE user_id = OLD.id AND finished_at IS NULL) THEN
        RAISE EXCEPTION '% is the last owner; make somebody else owner first', coalesce(
            OLD.display_name,
            (SELECT platform_username FROM public.user_platform_links WHERE user_id = OLD.id ORDER BY id LIMIT 1),
            'user ' || OLD.id
        );
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END
$$;
COMMENT ON FUNCTION public.parley_keep_owner IS 'Trigger: refuses to demote or delete the last owner.';
