-- Takes up to p_count notices off the list, the oldest first: limits that have reached a threshold. They are told by whoever
-- takes them, in the same transaction. `user_id`: whose limit it is, NULL when it is one that people share.
CREATE FUNCTION public.parley_take_notices(p_count bigint)
RETURNS TABLE (id bigint, limit_table text, limit_id bigint, percent smallint, user_id bigint)
LANGUAGE sql
BEGIN ATOMIC
    WITH taken AS (
        DELETE FROM public.budget_notices WHERE budget_notices.id IN (
            SELECT oldest.id FROM public.budget_notices AS oldest ORDER BY oldest.id LIMIT p_count FOR UPDATE SKIP LOCKED
        )
        RETURNING *
    )
    SELECT taken.id,
           CASE WHEN taken.limit_user_id IS NOT NULL THEN 'users' WHEN taken.limit_server_id IS NOT NULL THEN 'servers'
                ELSE 'budgets' END,
           coalesce(taken.limit_user_id, taken.limit_server_id, taken.limit_budget_id), taken.percent,
           coalesce(taken.limit_user_id, budgets.user_id)
    FROM taken LEFT JOIN public.budgets ON budgets.id = taken.limit_budget_id ORDER BY taken.id;
END;
COMMENT ON FUNCTION public.parley_take_notices IS 'Takes notices of limits that have reached a threshold off the list, to be told.';
