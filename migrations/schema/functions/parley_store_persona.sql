-- Stores the columns of a persona that `p_values` names: of a new one where `p_id` is NULL. Returns its number.
CREATE FUNCTION public.parley_store_persona(p_id bigint, p_values jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint;
    v_columns text;
BEGIN
    SELECT string_agg(quote_ident(key), ', ' ORDER BY key) INTO v_columns FROM jsonb_object_keys(p_values) AS key;
    EXECUTE format(
        CASE WHEN p_id IS NULL
             THEN 'INSERT INTO public.personas (%1$s) SELECT %1$s FROM jsonb_populate_record(NULL::public.personas, $1)'
             ELSE 'UPDATE public.personas SET (%1$s) = (
                       SELECT %1$s FROM jsonb_populate_record(NULL::public.personas, $1)
                   ) WHERE id = $2' END || ' RETURNING id',
        v_columns
    ) INTO v_id USING p_values, p_id;
    RETURN v_id;
END
$$;
COMMENT ON FUNCTION public.parley_store_persona IS
    'Stores the named columns of a persona, of a new one where the number is NULL; returns its number.';
