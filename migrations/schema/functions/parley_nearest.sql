-- The word that somebody may have meant: the nearest one, if no more than a third of the letters are wrong; else NULL.
CREATE FUNCTION public.parley_nearest(p_word text, p_words text[]) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT near.word FROM (
        SELECT each.word, public.parley_distance(p_word, each.word) AS distance
        FROM unnest(p_words) AS each(word)
        WHERE abs(length(each.word) - length(p_word)) <= greatest(1, length(p_word) / 3)
    ) AS near
    WHERE near.distance <= greatest(1, length(p_word) / 3) ORDER BY near.distance, near.word LIMIT 1
$$;
COMMENT ON FUNCTION public.parley_nearest IS 'The word of a list that is most like this one; NULL: none is like it.';
