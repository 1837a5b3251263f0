-- Closes the open questions that these turns have led to, whoever would say yes: their messages were edited or deleted, so
-- nobody wants any more what they asked for. With those of the clicks that had the answer made again, and those that repeat a
-- question or were asked behind a yes to it. A yes that is not used yet counts no more, neither to such a question nor one that
-- these turns began with.
CREATE FUNCTION public.parley_withdraw_questions(p_turn_ids bigint[]) RETURNS void
LANGUAGE sql AS $$
    WITH RECURSIVE asking AS (
        SELECT turn_id FROM unnest(p_turn_ids) AS turn_id
        UNION
        SELECT later.turn_id FROM asking CROSS JOIN LATERAL (
            SELECT inbox.turn_id FROM public.inbox WHERE inbox.again_of = asking.turn_id
            UNION ALL
            SELECT again.turn_id FROM public.confirmations AS first JOIN public.confirmations AS again
                ON again.conversation_id = first.conversation_id AND again.user_id = first.user_id
                AND (again.call_id = first.call_id OR again.turn_id = first.answered_turn_id)
            WHERE first.turn_id = asking.turn_id
        ) AS later
        WHERE later.turn_id IS NOT NULL
    )
    UPDATE public.confirmations SET status = 'expired', answered_at = NULL
    WHERE status IN ('pending', 'approved') AND turn_id IN (SELECT turn_id FROM asking)
       OR status = 'approved' AND answered_turn_id = ANY (p_turn_ids);
$$;
COMMENT ON FUNCTION public.parley_withdraw_questions IS
    'Closes the open questions that these turns have led to, and takes back yeses: their messages were edited or deleted.';
