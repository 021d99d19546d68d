-- +goose Up
-- Of two that migrate at once one fails here, and finds all done.
CREATE UNIQUE INDEX checkpoint_version_once ON tidemark.checkpoint_version (version_id);

-- What a sql run leaves: its key, in the transaction of its statement.
CREATE TABLE tidemark.sql_runs (
    key           text PRIMARY KEY,
    fingerprint   text NOT NULL,
    job           text NOT NULL,
    target        text NOT NULL,
    scheduled_at  timestamptz NOT NULL,
    window_from   timestamptz,
    window_to     timestamptz,
    attempt       integer NOT NULL,
    rows_affected bigint NOT NULL DEFAULT 0,
    finished_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX sql_runs_finished ON tidemark.sql_runs (finished_at);
