-- The best memories for a question, of the candidates that its words have found and of those whose vectors are nearest to its
-- own. Row-level security decides what is searched, as in parley_recall_by_words, whose candidates and weights these are.
--
-- p_ids, p_scores: the candidates of the words, and what indexes of vectors have found in the scopes p_indexed, with a score of
-- NULL. The nearest of all other scopes are looked for here, exactly, and all are scored together; one without vectors gets
-- the average of the others. p_turn_weight, p_window_weight: what the similarity of a text and of its window counts. Each of
-- the first p_k has its neighbours.
--
-- A plan made while there were few memories stays fast with many: each candidate is looked up by its id (LATERAL). The vector
-- of the question is read from its text once, not for each row.
CREATE FUNCTION public.parley_recall_by_vectors(
    p_visibility jsonb, p_model text, p_vector text, p_dimensions integer, p_turn_weight float8, p_window_weight float8,
    p_ids bigint[], p_scores float8[], p_indexed bigint[], p_k integer, p_since timestamptz, p_until timestamptz,
    p_conversation_id bigint, p_shown_from bigint
)
RETURNS TABLE (
    id bigint, score float8, content text, scope text, said_at timestamptz, source text, author text, speaker text,
    is_from_bot boolean, before_id bigint, before text, before_author text, before_speaker text, before_is_from_bot boolean,
    after_id bigint, after text, after_author text, after_speaker text, after_is_from_bot boolean
)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    -- As in the search by words.
    bot_factor CONSTANT float8 := 0.8;
    talk_factor CONSTANT float8 := 0.2;
    v_question CONSTANT halfvec := p_vector::halfvec;
BEGIN
    PERFORM set_config('parley.' || setting.key, setting.value, true) FROM jsonb_each_text(p_visibility) AS setting;
    RETURN QUERY
    WITH near AS MATERIALIZED (
        SELECT n.memory_id
        FROM public.memory_scopes AS s CROSS JOIN (VALUES ('turn'), ('window')) AS kinds (kind) CROSS JOIN LATERAL (
            SELECT v.memory_id FROM public.memory_vectors AS v
            WHERE v.scope_id = s.id AND v.model = p_model AND v.kind = kinds.kind
                  AND vector_dims(v.embedding) = p_dimensions
                  AND (p_since IS NULL AND p_until IS NULL OR EXISTS (
                      SELECT FROM public.memories AS m
                      WHERE m.id = v.memory_id AND m.superseded_by IS NULL
                            AND (p_since IS NULL OR m.said_at >= p_since) AND (p_until IS NULL OR m.said_at < p_until)
                            AND (p_shown_from IS NULL OR m.source <> 'turn' OR m.turn_id IS NULL
                                 OR m.turn_id < p_shown_from OR m.conversation_id IS DISTINCT FROM p_conversation_id)
                  ))
            ORDER BY v.embedding <=> v_question LIMIT 60
        ) AS n
        WHERE s.memories > 0 AND s.id <> ALL (p_indexed)
    ), pool AS MATERIALIZED (
        SELECT m.id, m.said_at, m.window_length IS NULL AS is_alone, w.score, e.vectors, e.turn, e.around,
               CASE WHEN m.is_from_bot THEN bot_factor ELSE 1 END * CASE WHEN m.is_talk THEN talk_factor ELSE 1 END AS factor
        FROM (
            SELECT each_one.id, max(each_one.score) AS score
            FROM (
                SELECT word.id, word.score FROM unnest(p_ids, p_scores) AS word (id, score)
                UNION ALL
                SELECT near.memory_id, NULL FROM near
            ) AS each_one
            GROUP BY each_one.id
        ) AS w
        CROSS JOIN LATERAL (
            SELECT m.* FROM public.memories AS m
            WHERE m.id = w.id AND m.superseded_by IS NULL
                  AND (p_since IS NULL OR m.said_at >= p_since) AND (p_until IS NULL OR m.said_at < p_until)
                  AND (p_shown_from IS NULL OR m.source <> 'turn' OR m.turn_id IS NULL OR m.turn_id < p_shown_from
                       OR m.conversation_id IS DISTINCT FROM p_conversation_id)
            LIMIT 1
        ) AS m
        CROSS JOIN LATERAL (
            SELECT count(*) AS vectors, max(s.similarity) FILTER (WHERE s.kind = 'turn') AS turn,
                   max(s.similarity) FILTER (WHERE s.kind = 'window') AS around
            FROM (
                SELECT v.kind, nullif(1 - (v.embedding <=> v_question), 'NaN') AS similarity
                FROM public.memory_vectors AS v
                WHERE v.memory_id = w.id AND v.model = p_model AND vector_dims(v.embedding) = p_dimensions
                OFFSET 0
            ) AS s
        ) AS e
    ), scaled AS (
        SELECT p.id, p.said_at, p.is_alone, p.score, p.vectors, p.factor,
               coalesce((p.turn - min(p.turn) OVER ()) / nullif(max(p.turn) OVER () - min(p.turn) OVER (), 0), 0.5) AS turn,
               coalesce((p.around - min(p.around) OVER ())
                        / nullif(max(p.around) OVER () - min(p.around) OVER (), 0), 0.5) AS around
        FROM pool AS p
    ), summed AS (
        SELECT s.id, s.said_at, s.score, s.factor,
               CASE WHEN s.vectors = 0 THEN NULL WHEN s.is_alone THEN s.turn * (p_turn_weight + p_window_weight)
                    ELSE s.turn * p_turn_weight + s.around * p_window_weight END AS similarity
        FROM scaled AS s
    ), ranked AS (
        SELECT s.id, s.said_at,
               coalesce(s.score, 0) + s.factor * coalesce(s.similarity, avg(s.similarity) OVER (), 0) AS score
        FROM summed AS s
        ORDER BY score DESC, s.said_at DESC, s.id DESC LIMIT p_k
    )
    SELECT r.id, r.score, shown.* FROM ranked AS r CROSS JOIN LATERAL public.parley_show_memory(r.id) AS shown
    ORDER BY r.score DESC, r.said_at DESC, r.id DESC;
END
$$;
COMMENT ON FUNCTION public.parley_recall_by_vectors IS
    'The best memories for a question by its words and by its vector together, with their neighbours.';
