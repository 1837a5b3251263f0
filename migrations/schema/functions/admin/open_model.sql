CREATE FUNCTION admin.open_model(model text, open_to text DEFAULT 'guest') RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    IF open_to IS NULL THEN
        DELETE FROM public.open_models AS open WHERE open.model = model;
        RETURN format('nobody may choose %s', model);
    END IF;
    INSERT INTO public.open_models AS open (model, open_to) VALUES (model, open_to)
    ON CONFLICT ON CONSTRAINT uq_open_models_model DO UPDATE SET open_to = excluded.open_to;
    RETURN format('%s may be chosen for a chat by %ss and those above', model, open_to);
END
$$;
COMMENT ON FUNCTION admin.open_model IS
    'Lets people choose a model of LLM_MODELS for a chat of the page, open_to => NULL: nobody: admin.open_model(''openai/gpt-5'', ''user'').';
