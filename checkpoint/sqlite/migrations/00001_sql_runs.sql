-- +goose Up
-- Of two that migrate at once one fails here, and finds all done.
CREATE UNIQUE INDEX tidemark_checkpoint_version_once ON tidemark_checkpoint_version (version_id);

-- What a sql run leaves: its key, in the transaction of its statement. Times are
-- text in UTC, as datetime() writes them.
CREATE TABLE tidemark_sql_runs (
    key           TEXT PRIMARY KEY,
    fingerprint   TEXT NOT NULL,
    job           TEXT NOT NULL,
    target        TEXT NOT NULL,
    scheduled_at  TEXT NOT NULL,
    window_from   TEXT,
    window_to     TEXT,
    attempt       INTEGER NOT NULL,
    rows_affected INTEGER NOT NULL DEFAULT 0,
    finished_at   TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX tidemark_sql_runs_finished ON tidemark_sql_runs (finished_at);
