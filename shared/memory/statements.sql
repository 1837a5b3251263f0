-- name: list_unindexed
SELECT memory_id, said_at, content FROM parley_unindexed_memories(:limit);

-- name: index_memories
SELECT parley_index_memories(:rows);

-- name: get_memory
SELECT id, content, scope, said_at, author FROM memories WHERE id = :memory_id;

-- name: list_by_ids
SELECT id, content, scope, said_at, author FROM memories WHERE id = ANY(CAST(:ids AS bigint[]));

-- name: list_memories
SELECT * FROM parley_list_memories(CAST(:visibility AS jsonb), :limit, :skip);

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
    p_until => :until, p_conversation_id => :conversation_id, p_shown_from => :shown_from, p_large => :large,
    p_vectors_follow => :vectors_follow
);

-- name: recall_by_vectors
SELECT * FROM parley_recall_by_vectors(
    p_visibility => CAST(:visibility AS jsonb), p_model => :model, p_vector => :vector, p_dimensions => :dimensions,
    p_turn_weight => :vector_turn, p_window_weight => :vector_window, p_ids => :ids, p_scores => :scores,
    p_indexed => :indexed, p_k => :k, p_since => :since, p_until => :until, p_conversation_id => :conversation_id,
    p_shown_from => :shown_from
);

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
