CREATE FUNCTION public.parley_reaches(p_platform text, p_server text) RETURNS boolean
LANGUAGE sql STABLE
RETURN coalesce(coalesce(current_setting('parley.acting_server', true), '') IN ('', p_platform || ':' || p_server), false);
COMMENT ON FUNCTION public.parley_reaches IS
    'Does what belongs to this server concern whoever acts? To an admin by a role of one server that server alone does.';
