-- name: list_unindexed
SELECT memory_id, said_at, content FROM parley_unindexed_memories(:limit);

-- name: index_memories
SELECT parley_index_memories(:rows);

-- name: get_memory
SELECT id, content, scope, said_at, author FROM memories WHERE id = :memory_id;

-- name: list_by_ids
SELECT id, content, scope, said_at, author FROM memories WHERE id = ANY(CAST(:ids AS bigint[]));

-- name: list_memories
-- What is visible beside that is of other members of the channel.
SELECT id, content, scope, said_at, author FROM memories
WHERE user_id = :user_id AND source <> 'turn' AND superseded_by IS NULL
ORDER BY said_at DESC, id DESC LIMIT :limit OFFSET :skip;

-- name: list_newest
SELECT id, content, scope, source, said_at, speaker, is_from_bot FROM memories WHERE user_id = :user_id AND superseded_by IS NULL
    AND (CAST(:sources AS text[]) IS NULL OR source = ANY(CAST(:sources AS text[])))
ORDER BY said_at DESC, id DESC LIMIT :limit OFFSET :skip;

-- name: list_with_words
-- Also facts that later ones have replaced: what is forgotten must not be left as history.
SELECT id, content, scope, source, said_at, speaker, is_from_bot FROM memories JOIN parley_find_own_memories(:user_id, :words, :limit, :skip) AS id USING (id)
ORDER BY said_at DESC, id DESC;

-- name: list_similar
-- Exactly, over the vectors of one person.
SELECT id, content, scope, source, said_at, speaker, is_from_bot FROM (
    SELECT memory_id AS id, embedding <=> (SELECT CAST(:vector AS halfvec)) AS distance FROM memory_vectors
    WHERE user_id = :user_id AND model = :model AND kind = 'turn' AND vector_dims(embedding) = :dimensions
    ORDER BY distance LIMIT :limit
) AS near JOIN memories USING (id) ORDER BY near.distance, id;

-- name: list_own_by_ids
SELECT id, content, scope, source, said_at, speaker, is_from_bot FROM memories WHERE user_id = :user_id AND id = ANY(:ids) ORDER BY said_at DESC, id DESC;

-- name: count_own
SELECT count(*) FROM memories WHERE user_id = :user_id;

-- name: forget_memories
SELECT parley_forget_memories(:user_id, :ids, :asked_in);

-- name: forget_all
SELECT parley_forget_all(:user_id);

-- name: recall_by_words
SELECT * FROM parley_recall_by_words(
    p_visibility => CAST(:visibility AS jsonb), p_words => CAST(:words AS text[]), p_k => :k, p_since => :since,
    p_until => :until, p_conversation_id => :conversation_id, p_shown_from => :shown_from, p_large => :large
);

-- name: recall_by_vectors
-- The nearest of each scope and the best by words are scored together; one without vectors gets the average of the
-- others. Each is looked up by its id (LATERAL): a plan made while there were few memories stays fast with many; and the
-- vector of the question is read from its text once, not for each row.
WITH question AS MATERIALIZED (
    SELECT CAST(:vector AS halfvec) AS vector
), words AS MATERIALIZED (
    SELECT * FROM unnest(:ids, :scores) AS word (id, score)
), near AS MATERIALIZED (
    SELECT n.memory_id
    FROM memory_scopes AS s CROSS JOIN (VALUES ('turn'), ('window')) AS kinds (kind) CROSS JOIN LATERAL (
        SELECT v.memory_id FROM memory_vectors AS v
        WHERE v.scope_id = s.id AND v.model = :model AND v.kind = kinds.kind
              AND vector_dims(v.embedding) = :dimensions
              AND (:since IS NULL AND :until IS NULL
                   OR EXISTS (SELECT FROM memories AS m WHERE m.id = v.memory_id AND
    m.superseded_by IS NULL AND (:since IS NULL OR m.said_at >= :since) AND (:until IS NULL OR m.said_at < :until)
    AND (:shown_from IS NULL OR m.source <> 'turn' OR m.turn_id IS NULL OR m.turn_id < :shown_from
         OR m.conversation_id IS DISTINCT FROM :conversation_id)))
        ORDER BY v.embedding <=> (SELECT vector FROM question) LIMIT 60
    ) AS n
    WHERE s.memories > 0 AND s.id <> ALL (:indexed)
), pool AS MATERIALIZED (
    SELECT m.id, m.said_at, m.window_length IS NULL AS is_alone, w.score, e.vectors, e.turn, e.around,
           CASE WHEN m.is_from_bot THEN :bot_factor ELSE 1 END
           * CASE WHEN m.is_talk THEN :talk_factor ELSE 1 END AS factor
    FROM (
        SELECT id, max(score) AS score
        FROM (SELECT id, score FROM words UNION ALL SELECT memory_id, NULL FROM near) AS each_one GROUP BY id
    ) AS w
    CROSS JOIN LATERAL (SELECT m.* FROM memories AS m WHERE m.id = w.id AND
    m.superseded_by IS NULL AND (:since IS NULL OR m.said_at >= :since) AND (:until IS NULL OR m.said_at < :until)
    AND (:shown_from IS NULL OR m.source <> 'turn' OR m.turn_id IS NULL OR m.turn_id < :shown_from
         OR m.conversation_id IS DISTINCT FROM :conversation_id) LIMIT 1) AS m
    CROSS JOIN LATERAL (
        SELECT count(*) AS vectors, max(s.similarity) FILTER (WHERE s.kind = 'turn') AS turn,
               max(s.similarity) FILTER (WHERE s.kind = 'window') AS around
        FROM (
            SELECT v.kind, nullif(1 - (v.embedding <=> (SELECT vector FROM question)), 'NaN') AS similarity
            FROM memory_vectors AS v
            WHERE v.memory_id = w.id AND v.model = :model AND vector_dims(v.embedding) = :dimensions
            OFFSET 0
        ) AS s
    ) AS e
), scaled AS (
    SELECT id, said_at, is_alone, score, vectors, factor,
           coalesce((turn - min(turn) OVER ()) / nullif(max(turn) OVER () - min(turn) OVER (), 0), 0.5) AS turn,
           coalesce((around - min(around) OVER ())
                    / nullif(max(around) OVER () - min(around) OVER (), 0), 0.5) AS around
    FROM pool
), summed AS (
    SELECT id, said_at, score, factor,
           CASE WHEN vectors = 0 THEN NULL WHEN is_alone THEN turn * (:vector_turn + :vector_window)
                ELSE turn * :vector_turn + around * :vector_window END AS similarity
    FROM scaled
), ranked AS (
    SELECT id, said_at, coalesce(score, 0) + factor * coalesce(similarity, avg(similarity) OVER (), 0) AS score
    FROM summed
    ORDER BY score DESC, said_at DESC, id DESC LIMIT :k
)
SELECT r.id, r.score,
       m.content, m.scope, m.said_at, m.source, m.author, m.speaker, m.is_from_bot,
       b.id AS before_id, b.content AS before, b.speaker AS before_speaker, b.is_from_bot AS before_is_from_bot,
       a.id AS after_id, a.content AS after, a.speaker AS after_speaker, a.is_from_bot AS after_is_from_bot
FROM ranked AS r CROSS JOIN LATERAL (SELECT n.* FROM memories AS n WHERE n.id = r.id LIMIT 1) AS m
LEFT JOIN LATERAL (
    SELECT n.* FROM memories AS n WHERE n.scope_id = m.scope_id AND n.ordinal = m.ordinal - 1 LIMIT 1
) AS b ON true
LEFT JOIN LATERAL (
    SELECT n.* FROM memories AS n WHERE n.scope_id = m.scope_id AND n.ordinal = m.ordinal + 1 LIMIT 1
) AS a ON true
ORDER BY r.score DESC, r.said_at DESC, r.id DESC;

-- name: add_memories
SELECT n, memory_id, is_new FROM parley_add_memories(:rows, :capacity);

-- name: list_usable_indexes
-- An index looks at 200 candidates: 0.995 of the true neighbours are among them, in our measurements.
SELECT c.relname, set_config('hnsw.ef_search', '200', true)
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE c.relname = ANY (:names) AND i.indrelid = 'memory_vectors'::regclass AND i.indisvalid;

-- name: list_large_scopes
SELECT s.id, e.model, e.dimensions, quote_literal(e.model) AS quoted
FROM memory_scopes AS s JOIN embedding_models AS e ON e.model = s.vector_model
WHERE s.memories > :large ORDER BY s.id;

-- name: list_indexes
SELECT c.relname AS name, i.indisvalid AS is_valid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = 'memory_vectors'::regclass AND starts_with(c.relname, :prefix);

-- name: quote_model
SELECT quote_literal(:model);

-- name: claim_vectors
SELECT memory_id FROM parley_claim_vectors(:model, :limit);

-- name: list_texts_to_embed
SELECT * FROM parley_texts_to_embed(:ids) ORDER BY memory_id;

-- name: store_vectors
SELECT parley_store_vectors(:model, :dimensions, :ids, :kinds, :versions, :vectors, :refused);

-- name: switch_vectors
SELECT parley_switch_vectors(:model, :limit);

-- name: charge_embeddings
SELECT parley_charge_embeddings(:model, :user_ids, :conversation_ids, :counts, :costs);

-- name: read_progress
SELECT memories, missing FROM parley_vectors_progress(:model);

-- name: act_as
-- Until the transaction ends, row-level security shows what this person may see in this place.
SELECT set_config('parley.user_id', :user_id, true), set_config('parley.platform', :platform, true),
       set_config('parley.server', :server, true), set_config('parley.channel', :channel, true),
       set_config('parley.thread', :thread, true), set_config('parley.is_direct', :is_direct, true);
