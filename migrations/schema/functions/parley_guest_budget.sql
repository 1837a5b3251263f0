-- What a guest may spend in 30 days: DEFAULT_GUEST_TOKEN_BUDGET. People who are added in psql have it, too.
CREATE FUNCTION public.parley_guest_budget() RETURNS bigint
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT guest_token_budget FROM public.defaults;
END;
COMMENT ON FUNCTION public.parley_guest_budget IS 'What a guest may spend in 30 days, in tokens, as the settings say.';
-- Here, because tables are made before functions.
ALTER TABLE public.users ALTER COLUMN token_budget_monthly SET DEFAULT public.parley_guest_budget();
