-- Stores the wish to erase a person, which a worker fulfils, and returns its number; that of the first wish when it was
-- stored before, NULL if there is no such person and never was.
CREATE FUNCTION public.parley_request_erasure(p_user_id bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.erasures (user_id) SELECT id FROM public.users WHERE id = p_user_id ON CONFLICT DO NOTHING;
    RETURN (SELECT id FROM public.erasures WHERE user_id = p_user_id);
END
$$;
COMMENT ON FUNCTION public.parley_request_erasure IS 'Stores the wish to erase a person and returns its number.';
