-- Trigger: gives back what the calls of a person who is deleted hold of limits that others share. The reservations go with
-- the person, and nobody could give it back afterwards.
--
-- Runs with the rights of its owner: admins who delete somebody may not change what is held.
CREATE FUNCTION public.parley_free_reservations() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_held record;
BEGIN
    FOR v_held IN
        DELETE FROM public.budget_reservations WHERE user_id = OLD.id RETURNING tokens, cost, server_id, budget_ids
    LOOP
        PERFORM public.parley_lock_limits(NULL, ARRAY[v_held.server_id], v_held.budget_ids);
        PERFORM public.parley_add_to_limits(
            ROW(NULL, v_held.server_id, v_held.budget_ids), 0, 0, -v_held.tokens, -coalesce(v_held.cost, 0)
        );
    END LOOP;
    RETURN OLD;
END
$$;
COMMENT ON FUNCTION public.parley_free_reservations IS
    'Trigger: gives back what the calls of a person who is deleted hold of limits that others share.';
