-- What admins have said of modules, for `find_objection` in `agent/tools/toolbox.py`: by name, the permission that each needs at
-- least, NULL: it is off. One row: the planner puts it into the statement that calls it.
CREATE FUNCTION public.parley_list_modules() RETURNS TABLE (modules json)
LANGUAGE sql STABLE AS $$
    SELECT json_object_agg(name, CASE WHEN is_enabled THEN required_permission END ORDER BY name) AS modules FROM public.modules
$$;
COMMENT ON FUNCTION public.parley_list_modules IS 'Modules that are off, or need a permission beyond that of their tools.';
REVOKE EXECUTE ON FUNCTION public.parley_list_modules FROM parley_admin;
