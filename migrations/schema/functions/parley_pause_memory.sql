-- Pauses or resumes what is remembered of a person.
CREATE FUNCTION public.parley_pause_memory(p_user_id bigint, p_is_paused boolean) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    UPDATE public.users SET is_memory_paused = p_is_paused WHERE id = p_user_id;
END;
COMMENT ON FUNCTION public.parley_pause_memory IS 'Pauses or resumes what is remembered of a person.';
