-- Trigger: gives back what a model call holds, when its reservation goes with the person, the turn or the conversation that is
-- deleted. Nobody could give it back afterwards. Whoever deletes reservations by themselves also gives back what they hold.
--
-- Runs with the rights of its owner: admins who delete somebody may not change what is held.
CREATE FUNCTION public.parley_free_reservations() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A person who is being deleted is none to be locked.
    PERFORM public.parley_lock_limits(
        ARRAY(SELECT id FROM public.users WHERE id = OLD.user_id), ARRAY[OLD.server_id], OLD.budget_ids
    );
    PERFORM public.parley_add_to_limits(
        ROW(OLD.user_id, OLD.server_id, OLD.budget_ids), 0, 0, -OLD.tokens, -coalesce(OLD.cost, 0)
    );
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.parley_free_reservations IS
    'Trigger: gives back what the calls hold of a person, a turn or a conversation that is deleted.';
