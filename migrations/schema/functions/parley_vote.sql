-- Stores what the person whose turn it was thinks of its answer: 1 good, -1 bad, 0 takes it back. The last vote counts. Without a
-- comment (NULL) the one that goes with the same score stays; an empty one takes it away. The caller has made sure who votes.
CREATE FUNCTION public.parley_vote(p_turn_id bigint, p_score smallint, p_comment text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF p_score = 0 THEN
        DELETE FROM public.feedback USING public.turns
        WHERE turns.id = p_turn_id AND feedback.turn_id = turns.id AND feedback.user_id = turns.user_id;
    ELSE
        INSERT INTO public.feedback AS vote (turn_id, user_id, score, comment)
        SELECT turns.id, turns.user_id, p_score, nullif(btrim(p_comment), '') FROM public.turns WHERE turns.id = p_turn_id
        ON CONFLICT (turn_id, user_id) DO UPDATE SET score = excluded.score,
            comment = CASE WHEN p_comment IS NULL AND vote.score = excluded.score THEN vote.comment ELSE excluded.comment END;
    END IF;
    RETURN true;
END
$$;
COMMENT ON FUNCTION public.parley_vote IS 'Stores what the person whose turn it was thinks of its answer.';
