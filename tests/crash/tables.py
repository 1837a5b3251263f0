"""Tables in which workers count what they do, which no transaction of a turn touches."""

TABLES = """
CREATE TABLE stage_effects (call_id text NOT NULL);
CREATE TABLE stage_reads (call_id text NOT NULL);
CREATE TABLE stage_sends (nonce text NOT NULL);
CREATE TABLE stage_posts (nonce text PRIMARY KEY, content text NOT NULL);
CREATE TABLE stage_model_calls (
    place text NOT NULL, worker text NOT NULL, reservation_id bigint, tokens int, is_alone boolean NOT NULL
);
GRANT ALL ON stage_effects, stage_reads, stage_sends, stage_posts, stage_model_calls TO parley_app;
CREATE FUNCTION stage_tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NOTIFY stage; RETURN NULL; END';
CREATE TRIGGER stage_delivered AFTER UPDATE ON outbox FOR EACH ROW WHEN (NEW.status = 'delivered')
    EXECUTE FUNCTION stage_tell();
"""
