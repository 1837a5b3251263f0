-- Refuses what whoever acts (parley_act_as) may not: an admin changes nothing of an owner, and what is dangerous wants a
-- login of the last minutes. Who acts with the database's own rights, as psql does, is not asked.
CREATE FUNCTION public.parley_check_rank(p_concerns_owner boolean, p_is_dangerous boolean) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF coalesce(current_setting('parley.acting_permission', true), '') = '' THEN
        RETURN;
    END IF;
    IF p_concerns_owner AND current_setting('parley.acting_permission') <> 'owner' THEN
        RAISE EXCEPTION 'only an owner may change an owner, make somebody one, or read what is remembered of one';
    END IF;
    IF p_is_dangerous AND current_setting('parley.has_fresh_login') <> 'yes' THEN
        RAISE EXCEPTION 'this wants a login of the last 15 minutes; open a new one-time link, which the command parley link prints, and do it again';
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_check_rank IS
    'Refuses what whoever acts may not: an admin something of an owner, and a dangerous act without a fresh login.';
