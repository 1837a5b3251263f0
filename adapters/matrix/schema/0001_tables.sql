CREATE TABLE matrix_listeners (
    account text PRIMARY KEY,
    holder text NOT NULL,
    leased_until timestamptz NOT NULL,
    sync_token text,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE matrix_listeners IS 'How far each Matrix account was listened to, and which process listens.';
COMMENT ON COLUMN matrix_listeners.account IS 'The account of the agent, as @parley:example.org.';
COMMENT ON COLUMN matrix_listeners.holder IS 'The process that listens.';
COMMENT ON COLUMN matrix_listeners.leased_until IS 'When another process may listen instead.';
COMMENT ON COLUMN matrix_listeners.sync_token IS 'The homeserver''s mark up to which every message is stored.';
COMMENT ON COLUMN matrix_listeners.created_at IS 'When the row was made.';

CREATE TABLE matrix_buttons (
    event_id text PRIMARY KEY,
    room text NOT NULL,
    thread text,
    buttons jsonb NOT NULL CHECK (jsonb_typeof(buttons) = 'object'),
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX matrix_buttons_created_at_idx ON matrix_buttons (created_at);
COMMENT ON TABLE matrix_buttons IS 'What reactions to a message of the agent mean; a row goes after two days.';
COMMENT ON COLUMN matrix_buttons.event_id IS 'The message.';
COMMENT ON COLUMN matrix_buttons.room IS 'The room of the message.';
COMMENT ON COLUMN matrix_buttons.thread IS 'The first message of the thread that it is in, NULL outside of threads.';
COMMENT ON COLUMN matrix_buttons.buttons IS 'By emoji, the id of the button.';
COMMENT ON COLUMN matrix_buttons.created_at IS 'When the row was made.';
