-- The best memories for the words of a question, of those that this person may see in this place: row-level security
-- decides which, by the settings that are made here for the rest of the transaction. With the id of the caller, so that one
-- round trip is enough.
--
-- `counted` finds the rarest words; `rough` reads where these occur and gives each occurrence to the memory itself and to
-- both neighbours, whose windows contain it, by scores that ignore the length of windows, of which few may be alike; `scored`
-- looks all words up for the candidates that this gives, and has the exact scores (BM25 of the text and of its window). Without
-- any word the newest are the best. Of each of the first p_k the row has the text and the neighbours, unless p_vectors_follow
-- and there are vectors: then parley_recall_by_vectors has the texts, and there is one row, with the ids and scores of all
-- candidates. Every row also has the embedding model whose vectors most of the visible memories have (null without any), and the
-- scopes with so many memories (p_large) that their vectors have indexes of their own. There is always a row; without matches
-- its id is null.
CREATE FUNCTION public.parley_recall_by_words(
    p_visibility jsonb, p_words text[], p_k integer, p_since timestamptz, p_until timestamptz, p_conversation_id bigint,
    p_shown_from bigint, p_large bigint, p_vectors_follow boolean
)
RETURNS TABLE (
    model text, candidate_ids bigint[], candidate_scores float8[], large bigint[],
    id bigint, score float8, content text, scope text, said_at timestamptz, source text, author text, speaker text,
    is_from_bot boolean, before_id bigint, before text, before_author text, before_speaker text, before_is_from_bot boolean,
    after_id bigint, after text, after_author text, after_speaker text, after_is_from_bot boolean
)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    -- The parameters of BM25.
    saturation CONSTANT float8 := 1.2;
    by_length CONSTANT float8 := 0.75;
    -- The weights of the text and of its window, measured; a memory without neighbours is its own window.
    words_turn CONSTANT float8 := 1.0;
    words_window CONSTANT float8 := 1.0;
    -- Added for a memory of a speaker whom the question names (less than the best text gets for its words), for what the
    -- person asked to remember, for other facts.
    speaker_boost CONSTANT float8 := 0.9;
    remembered_boost CONSTANT float8 := 0.3;
    fact_boost CONSTANT float8 := 0.1;
    -- Scores of Parley's own answers, which repeat the words of questions, are multiplied by this.
    bot_factor CONSTANT float8 := 0.8;
    -- Greetings and thanks come after what was told.
    talk_factor CONSTANT float8 := 0.2;
BEGIN
    PERFORM set_config('parley.' || setting.key, setting.value, true) FROM jsonb_each_text(p_visibility) AS setting;
    RETURN QUERY
    WITH scopes AS MATERIALIZED (
        SELECT s.id, s.memories, s.words, s.vector_model FROM public.memory_scopes AS s WHERE s.memories > 0
    ), totals AS MATERIALIZED (
        SELECT sum(s.memories)::float8 AS stored, greatest(sum(s.words) / sum(s.memories), 1)::float8 AS mean FROM scopes AS s
    ), question AS MATERIALIZED (
        SELECT DISTINCT coalesce((ts_lexize('english_stem', word))[1], word) AS term FROM unnest(p_words) AS word
    ), counted AS MATERIALIZED (
        -- Counted up to 1,000, or to a tenth of a scope; all words beyond that count as equally common.
        SELECT q.term, sum(c.found)::float8 AS df
        FROM question AS q CROSS JOIN scopes AS s CROSS JOIN LATERAL (
            SELECT count(*) AS found FROM (
                SELECT FROM public.memory_words AS w WHERE w.scope_id = s.id AND w.term = q.term
                LIMIT greatest(1000, s.memories / 10)
            ) AS first_ones
        ) AS c
        GROUP BY q.term HAVING sum(c.found) > 0
    ), terms AS MATERIALIZED (
        -- Only the 12 rarest words are searched for. The words that find candidates are those whose places are few, in all
        -- and of all memories; more common ones then only add to the scores of these.
        SELECT c.term,
               row_number() OVER rarest = 1 OR sum(c.df) OVER rarest <= 1000 AND c.df < greatest(50, t.stored / 2) AS finds,
               ln(1 + (t.stored - c.df + 0.5) / (c.df + 0.5)) AS idf,
               -- A word is in three times as many windows, unless these overlap.
               ln(1 + (0.5 + t.stored * (1 - c.df / t.stored) ^ 3)
                      / (0.5 + t.stored * (1 - (1 - c.df / t.stored) ^ 3))) AS window_idf
        FROM counted AS c CROSS JOIN totals AS t
        WINDOW rarest AS (ORDER BY c.df, c.term)
        ORDER BY c.df, c.term LIMIT 12
    ), rough AS MATERIALIZED (
        -- What was said again and again has the same score each time: the newest 20 of those alike come first, then 20 more, so
        -- that there is room for what was told once.
        SELECT alike.scope_id, alike.ordinal, alike.score FROM (
            SELECT s.*, row_number() OVER (PARTITION BY s.score ORDER BY s.score DESC, s.ordinal DESC) AS place
            FROM (
                SELECT h.scope_id, h.ordinal + step AS ordinal,
                       -- A fact has no neighbours, which would add their windows to its own.
                       sum(CASE step WHEN 0 THEN h.turn ELSE 0 END
                           + CASE WHEN h.ordinal < 4611686018427387904 THEN h.around ELSE 3 * h.around END)::real AS score
                FROM (
                    SELECT s.id AS scope_id, w.ordinal,
                           sum(t.idf * w.tf / (w.tf + saturation * (1 - by_length + by_length * w.length / n.mean))) AS turn,
                           sum(t.window_idf * w.tf / (w.tf + saturation)) AS around
                    FROM terms AS t CROSS JOIN totals AS n CROSS JOIN scopes AS s CROSS JOIN LATERAL (
                        SELECT p.ordinal, p.tf, p.length FROM public.memory_words AS p
                        WHERE p.scope_id = s.id AND p.term = t.term
                              AND (p_since IS NULL OR p.said_at >= p_since) AND (p_until IS NULL OR p.said_at < p_until)
                        ORDER BY p.ordinal DESC LIMIT 1800
                    ) AS w
                    WHERE t.finds
                    GROUP BY 1, 2
                ) AS h CROSS JOIN (VALUES (-1), (0), (1)) AS steps (step)
                WHERE step = 0 OR h.ordinal < 4611686018427387904
                GROUP BY 1, 2 ORDER BY score DESC, 2 DESC LIMIT 2000
            ) AS s
        ) AS alike
        WHERE alike.place <= 40
        ORDER BY (alike.place - 1) / 20, alike.score DESC, alike.ordinal DESC LIMIT 180
    ), candidates AS MATERIALIZED (
        -- Of what somebody said again and again only the best place; bare questions and talk go after what was told. Of two
        -- people who said the same, the question may name either.
        SELECT first.* FROM (
            SELECT r.scope_id, r.ordinal, r.score, m.id, m.said_at, m.speaker, m.source, m.is_from_bot, m.window_length, m.is_talk,
                   m.is_talk OR m.is_question AS tells_nothing, row_number() OVER (
                       -- One number for all: rows that are alike are compared by each key that stands before the last.
                       PARTITION BY hash_record_extended(ROW(lower(m.content COLLATE "C"), m.speaker, m.source, m.is_from_bot), 0)
                       ORDER BY r.score DESC, m.said_at DESC, r.ordinal DESC
                   ) AS place
            FROM rough AS r CROSS JOIN LATERAL (
                SELECT m.id, m.said_at, m.speaker, m.source, m.is_from_bot, m.window_length, m.content, m.is_talk, m.is_question
                FROM public.memories AS m
                WHERE m.scope_id = r.scope_id AND m.ordinal = r.ordinal AND m.superseded_by IS NULL
                      AND (p_since IS NULL OR m.said_at >= p_since) AND (p_until IS NULL OR m.said_at < p_until)
                      AND (p_shown_from IS NULL OR m.source <> 'turn' OR m.turn_id IS NULL OR m.turn_id < p_shown_from
                           OR m.conversation_id IS DISTINCT FROM p_conversation_id)
                LIMIT 1
            ) AS m
        ) AS first
        WHERE first.place = 1
        ORDER BY first.tells_nothing, first.score DESC, first.ordinal DESC
        LIMIT 60
    ), scored AS MATERIALIZED (
        SELECT c.*, coalesce(p.turn, 0) AS turn, coalesce(p.around, 0) AS around
        FROM candidates AS c CROSS JOIN LATERAL (
            SELECT sum(t.idf * i.tf / (i.tf + saturation * (1 - by_length + by_length * i.length / n.mean))) AS turn,
                   sum(t.window_idf * i.window_tf / (
                       i.window_tf + saturation * (1 - by_length + by_length * c.window_length / (3 * n.mean))
                   )) AS around
            FROM terms AS t CROSS JOIN totals AS n CROSS JOIN LATERAL (
                SELECT sum(p.tf) FILTER (WHERE p.ordinal = c.ordinal) AS tf,
                       max(p.length) FILTER (WHERE p.ordinal = c.ordinal) AS length, sum(p.tf) AS window_tf
                FROM public.memory_words AS p
                WHERE p.scope_id = c.scope_id AND p.term = t.term AND p.ordinal BETWEEN c.ordinal - 1 AND c.ordinal + 1
            ) AS i
        ) AS p
    ), ranked AS (
        SELECT c.id, c.said_at,
               (coalesce(c.turn / nullif(max(c.turn) OVER (), 0), 0)
                * (words_turn + CASE WHEN c.window_length IS NULL THEN words_window ELSE 0 END)
                + coalesce(c.around / nullif(max(c.around) OVER (), 0), 0) * words_window
                + CASE WHEN string_to_array(lower(c.speaker), ' ') && p_words THEN speaker_boost ELSE 0 END
                + CASE c.source WHEN 'turn' THEN 0 WHEN 'remembered' THEN remembered_boost ELSE fact_boost END)
               * CASE WHEN c.is_from_bot THEN bot_factor ELSE 1 END * CASE WHEN c.is_talk THEN talk_factor ELSE 1 END AS score
        FROM scored AS c
        UNION ALL
        -- Facts first.
        SELECT n.id, n.said_at, n.score FROM scopes AS s CROSS JOIN LATERAL (
            SELECT m.id, m.said_at, CASE m.source WHEN 'turn' THEN 0 ELSE 0.5 END::float8 AS score
            FROM public.memories AS m
            WHERE m.scope_id = s.id AND m.superseded_by IS NULL
                  AND (p_since IS NULL OR m.said_at >= p_since) AND (p_until IS NULL OR m.said_at < p_until)
                  AND (p_shown_from IS NULL OR m.source <> 'turn' OR m.turn_id IS NULL OR m.turn_id < p_shown_from
                       OR m.conversation_id IS DISTINCT FROM p_conversation_id)
            ORDER BY m.said_at DESC, m.id DESC LIMIT p_k
        ) AS n
        WHERE cardinality(p_words) = 0
    ), best AS MATERIALIZED (
        SELECT r.id, r.said_at, r.score FROM ranked AS r ORDER BY r.score DESC, r.said_at DESC, r.id DESC
    ), answering AS MATERIALIZED (
        -- While a new model's vectors are made, those of the model before answer; two models' vectors are never compared.
        SELECT max(most.vector_model) AS model FROM (
            SELECT s.vector_model FROM scopes AS s WHERE s.vector_model IS NOT NULL
            GROUP BY s.vector_model ORDER BY sum(s.memories) DESC, s.vector_model LIMIT 1
        ) AS most
    )
    SELECT v.model, v.candidate_ids, v.candidate_scores, v.large, r.id, r.score, shown.*
    FROM (
        SELECT answering.model, ARRAY(SELECT s.id FROM scopes AS s WHERE s.memories > p_large) AS large,
               ARRAY(SELECT best.id FROM best WHERE p_vectors_follow AND answering.model IS NOT NULL) AS candidate_ids,
               ARRAY(SELECT best.score FROM best WHERE p_vectors_follow AND answering.model IS NOT NULL) AS candidate_scores
        FROM answering
    ) AS v
    LEFT JOIN LATERAL (
        SELECT best.* FROM best WHERE v.model IS NULL OR NOT p_vectors_follow LIMIT p_k
    ) AS r ON true
    LEFT JOIN LATERAL public.parley_show_memory(r.id) AS shown ON true
    ORDER BY r.score DESC, r.said_at DESC, r.id DESC;
END
$$;
COMMENT ON FUNCTION public.parley_recall_by_words IS
    'The best memories for the words of a question, of those that a person may see in a place, with their neighbours.';
