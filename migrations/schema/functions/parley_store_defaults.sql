-- Stores what the settings say that functions need, where it differs. The program calls it whenever it starts.
CREATE FUNCTION public.parley_store_defaults(p_guest_token_budget bigint) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    UPDATE public.defaults SET guest_token_budget = p_guest_token_budget WHERE guest_token_budget <> p_guest_token_budget;
END;
COMMENT ON FUNCTION public.parley_store_defaults IS 'Stores what the program''s settings say, for the functions.';
