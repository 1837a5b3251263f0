CREATE TABLE chat_listeners (
    platform text NOT NULL,
    account text NOT NULL,
    holder text NOT NULL,
    leased_until timestamptz NOT NULL,
    mark text,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (platform, account)
);
COMMENT ON TABLE chat_listeners IS 'Which process listens to an account that one alone may listen to, and how far it has come.';
COMMENT ON COLUMN chat_listeners.platform IS 'The platform.';
COMMENT ON COLUMN chat_listeners.account IS 'The account of the agent there.';
COMMENT ON COLUMN chat_listeners.holder IS 'The process that listens.';
COMMENT ON COLUMN chat_listeners.leased_until IS 'When another process may listen instead.';
COMMENT ON COLUMN chat_listeners.mark IS 'The platform''s own mark up to which every message is stored.';
COMMENT ON COLUMN chat_listeners.created_at IS 'When the row was made.';

CREATE TABLE chat_buttons (
    platform text NOT NULL,
    channel text NOT NULL,
    message text NOT NULL,
    thread text,
    buttons jsonb NOT NULL CHECK (jsonb_typeof(buttons) = 'object'),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (platform, channel, message)
);
CREATE INDEX chat_buttons_created_at_idx ON chat_buttons (created_at);
COMMENT ON TABLE chat_buttons IS 'What reactions to a message of the agent mean; a row goes after two days.';
COMMENT ON COLUMN chat_buttons.platform IS 'The platform.';
COMMENT ON COLUMN chat_buttons.channel IS 'The channel of the message.';
COMMENT ON COLUMN chat_buttons.message IS 'The platform''s id of the message.';
COMMENT ON COLUMN chat_buttons.thread IS 'The thread that it is in, NULL outside of threads.';
COMMENT ON COLUMN chat_buttons.buttons IS 'By emoji, the id of the button.';
COMMENT ON COLUMN chat_buttons.created_at IS 'When the row was made.';

CREATE TABLE chat_pictures (
    platform text NOT NULL,
    account text NOT NULL,
    sha256 text NOT NULL,
    address text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (platform, account, sha256)
);
COMMENT ON TABLE chat_pictures IS 'Pictures of personas that a platform has, uploaded once by each account; one that no persona has goes with the next upload.';
COMMENT ON COLUMN chat_pictures.platform IS 'The platform.';
COMMENT ON COLUMN chat_pictures.account IS 'The account of the agent there.';
COMMENT ON COLUMN chat_pictures.sha256 IS 'The digest of the picture, as in personas.picture.';
COMMENT ON COLUMN chat_pictures.address IS 'Where the platform has it.';
COMMENT ON COLUMN chat_pictures.created_at IS 'When the row was made.';

INSERT INTO folder_tables (name) VALUES ('chat_listeners'), ('chat_buttons'), ('chat_pictures');
