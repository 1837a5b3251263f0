-- NULL is open to nobody.
CREATE FUNCTION public.parley_is_open(p_open_to text, p_permission_level text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN coalesce(
    array_position('{guest,user,admin,owner}', p_permission_level) >= array_position('{guest,user,admin,owner}', p_open_to),
    false
);
COMMENT ON FUNCTION public.parley_is_open IS 'Whether somebody with a permission may choose what is open to another one and those above.';
