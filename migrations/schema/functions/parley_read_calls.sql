-- The model calls of a payment (see parley_charge) as the ledger can hold them: one for each reservation, the last one, and no
-- number that limits could not count. A provider may report nonsense, and no call gives back tokens or dollars: what is
-- negative counts as 0, what is too much as a billion tokens, and a cost that is none as unknown.
CREATE FUNCTION public.parley_read_calls(p_calls jsonb)
RETURNS TABLE (
    reservation_id bigint, purpose text, model text, input_tokens int, cached_tokens int, output_tokens int, cost numeric,
    is_estimated boolean
)
LANGUAGE sql IMMUTABLE AS $$
    SELECT last.reservation_id, coalesce(last.purpose, 'answer'), coalesce(last.model, 'unknown'),
           least(greatest(coalesce(nullif(last.input_tokens, 'NaN'), 0), 0), 1000000000)::int,
           least(greatest(coalesce(nullif(last.cached_tokens, 'NaN'), 0), 0), 1000000000)::int,
           least(greatest(coalesce(nullif(last.output_tokens, 'NaN'), 0), 0), 1000000000)::int,
           CASE WHEN last.cost BETWEEN 0 AND 999999 THEN round(last.cost, 8) END, coalesce(last.is_estimated, false)
    FROM (
        SELECT DISTINCT ON (coalesce(call.reservation_id, -call.number)) call.*
        FROM ROWS FROM (jsonb_to_recordset(p_calls) AS (
            reservation_id bigint, purpose text, model text, input_tokens numeric, cached_tokens numeric,
            output_tokens numeric, cost numeric, is_estimated boolean
        )) WITH ORDINALITY AS call (
            reservation_id, purpose, model, input_tokens, cached_tokens, output_tokens, cost, is_estimated, number
        )
        ORDER BY coalesce(call.reservation_id, -call.number), call.number DESC
    ) AS last
    ORDER BY last.number
$$;
COMMENT ON FUNCTION public.parley_read_calls IS
    'For parley_charge: the calls of a payment, one for each reservation, with numbers that the ledger can hold.';
