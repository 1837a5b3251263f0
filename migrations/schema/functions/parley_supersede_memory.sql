-- Marks that a later fact replaces an earlier one of the same person in the same place. What the person asked to remember
-- is not replaced by what a model read.
CREATE FUNCTION public.parley_supersede_memory(p_old bigint, p_new bigint) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    UPDATE public.memories AS old SET superseded_by = later.id FROM public.memories AS later
    WHERE old.id = p_old AND later.id = p_new AND old.id <> later.id AND old.source = 'fact' AND old.superseded_by IS NULL
      AND old.user_id = later.user_id AND old.scope_id = later.scope_id;
END;
COMMENT ON FUNCTION public.parley_supersede_memory IS 'Marks that a later fact of a person replaces an earlier one.';
