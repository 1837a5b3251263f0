-- Removes all vectors of this model, so that they are made anew: for the owner of the database, when a provider has changed
-- what stands behind a model's name.
CREATE FUNCTION public.parley_drop_vectors(p_model text)
RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_removed bigint;
BEGIN
    DELETE FROM public.memory_vectors WHERE model = p_model;
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    UPDATE public.memories SET vector_model = NULL, vectors_due_at = now() WHERE vector_model = p_model;
    UPDATE public.memory_scopes SET vector_model = NULL WHERE vector_model = p_model;
    DELETE FROM public.embedding_models WHERE model = p_model;
    RETURN v_removed;
END
$$;
COMMENT ON FUNCTION public.parley_drop_vectors IS
    'Removes all vectors of this embedding model, so that they are made anew; returns how many.';
REVOKE EXECUTE ON FUNCTION public.parley_drop_vectors FROM parley_app, parley_admin;
