CREATE FUNCTION public.parley_mark_owners_of_memories() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE users SET has_memories = true WHERE id IN (SELECT user_id FROM made) AND NOT has_memories;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.parley_mark_owners_of_memories IS 'Trigger: notes of people that something is remembered about them.';
