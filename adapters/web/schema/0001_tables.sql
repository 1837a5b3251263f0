-- Answers of POST /v1/responses that can be read again and gone on from.

CREATE TABLE stored_responses (
    inbox_id bigint PRIMARY KEY REFERENCES inbox ON DELETE CASCADE,
    previous_id bigint REFERENCES stored_responses ON DELETE SET NULL,
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT stored_responses_metadata_is_an_object CHECK (jsonb_typeof(metadata) = 'object')
);
COMMENT ON TABLE stored_responses IS
    'Answers of POST /v1/responses that can be read again; deleting a row leaves the turn, and ends only that.';
COMMENT ON COLUMN stored_responses.inbox_id IS 'The message that was answered; the answer is that of its turn.';
COMMENT ON COLUMN stored_responses.previous_id IS 'The answer that the request went on from.';
COMMENT ON COLUMN stored_responses.metadata IS 'What the program has noted about it.';
COMMENT ON COLUMN stored_responses.created_at IS 'When the row was made.';
CREATE INDEX ix_stored_responses_previous_id ON stored_responses (previous_id) WHERE previous_id IS NOT NULL;

INSERT INTO folder_tables (name) VALUES ('stored_responses');
