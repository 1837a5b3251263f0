-- How many memories there are. Runs with the rights of its owner: they are of all persons.
CREATE FUNCTION public.parley_count_memories() RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(sum(memories), 0)::bigint FROM public.memory_scopes
$$;
COMMENT ON FUNCTION public.parley_count_memories IS 'How many memories there are, of all persons.';
REVOKE EXECUTE ON FUNCTION public.parley_count_memories FROM parley_admin;
