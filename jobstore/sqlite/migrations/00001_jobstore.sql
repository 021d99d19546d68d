-- +goose Up
-- Times are INTEGERs: microseconds since the Unix epoch, UTC. Booleans are 0 and 1.

CREATE TABLE tidemark_meta (
    one        INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    created_at INTEGER NOT NULL,
    revision   INTEGER NOT NULL DEFAULT 0          -- highest revision of a config file ever loaded
);
INSERT INTO tidemark_meta (created_at) VALUES (CAST(strftime('%s', 'now') AS INTEGER) * 1000000);

CREATE TABLE tidemark_jobs (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    version         INTEGER NOT NULL DEFAULT 1,    -- grows with every change
    name            TEXT NOT NULL UNIQUE,
    definition      TEXT NOT NULL,                -- as written in the file, canonical JSON
    hash            TEXT NOT NULL,
    schedule        TEXT NOT NULL,                -- canonical JSON
    fingerprint     TEXT NOT NULL,
    overlap         TEXT NOT NULL,
    coalesce        TEXT NOT NULL,
    max_instances   INTEGER NOT NULL,             -- 0: no bound
    windowed        INTEGER NOT NULL,
    uses_window     INTEGER NOT NULL,
    watermark_start INTEGER,
    file_paused     INTEGER NOT NULL,
    last_planned    INTEGER NOT NULL,
    counts_from     INTEGER NOT NULL,             -- since when the present schedule counts: made, changed, or resumed
    next_fire       INTEGER,                  -- null: never again
    wake_at         INTEGER,                  -- when the planner must look: next fire, or the end of a pause; null: not at all
    due             INTEGER NOT NULL DEFAULT 0,
    pruned          INTEGER NOT NULL DEFAULT 0,
    pruned_through  INTEGER,
    paused_at       INTEGER,
    paused_until    INTEGER,
    pause_reason    TEXT NOT NULL DEFAULT '',
    paused_by       TEXT NOT NULL DEFAULT '',
    resumed_at      INTEGER,
    resume_policy   TEXT NOT NULL DEFAULT '',
    created_at      INTEGER NOT NULL,
    removed_at      INTEGER
);
CREATE INDEX tidemark_jobs_wake ON tidemark_jobs (wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE tidemark_targets (
    job_id            INTEGER NOT NULL,
    target            TEXT NOT NULL,
    watermark         INTEGER,
    last_state        TEXT NOT NULL DEFAULT '',
    last_finished_at  INTEGER,
    last_success_at   INTEGER,
    last_success_fire INTEGER,
    last_success_key  TEXT NOT NULL DEFAULT '',
    review            INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, target)
) WITHOUT ROWID;

CREATE TABLE tidemark_runs (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    key                TEXT NOT NULL CONSTRAINT tidemark_runs_key UNIQUE,   -- a run exists at most once
    job_id             INTEGER NOT NULL,
    target             TEXT NOT NULL,
    fire_time          INTEGER NOT NULL,
    trigger            TEXT NOT NULL CHECK (trigger IN ('schedule', 'catch_up', 'manual')),
    logical_run        INTEGER NOT NULL DEFAULT 1,
    state              TEXT NOT NULL CHECK (state IN ('pending', 'running', 'retrying', 'succeeded', 'failed', 'canceled', 'missed', 'skipped', 'coalesced')),
    reason             TEXT NOT NULL DEFAULT '',
    review             INTEGER NOT NULL DEFAULT 0,
    coalesced_into     TEXT NOT NULL DEFAULT '',
    covers             INTEGER NOT NULL DEFAULT 1,
    not_before         INTEGER NOT NULL,
    claim_at           INTEGER,               -- when anybody may claim it; null: waits its turn, or has ended
    deadline           INTEGER,
    attempt            INTEGER NOT NULL DEFAULT 0,
    failures           INTEGER NOT NULL DEFAULT 0,
    node               TEXT NOT NULL DEFAULT '',
    created_at         INTEGER NOT NULL,
    started_at         INTEGER,
    attempt_started_at INTEGER,
    finished_at        INTEGER,
    window_from        INTEGER,
    window_to          INTEGER,
    own_window         INTEGER NOT NULL DEFAULT 0,
    fingerprint        TEXT NOT NULL DEFAULT '',
    cancel_requested   INTEGER NOT NULL DEFAULT 0,
    exit_code          INTEGER,
    message            TEXT NOT NULL DEFAULT '',
    CHECK ((finished_at IS NULL) = (state IN ('pending', 'running', 'retrying'))),
    CHECK (claim_at IS NULL OR state IN ('pending', 'running', 'retrying')),
    CHECK (claim_at IS NOT NULL OR state NOT IN ('running', 'retrying')),
    CHECK (window_from <= window_to)
);
CREATE INDEX tidemark_runs_fire ON tidemark_runs (job_id, fire_time);
CREATE INDEX tidemark_runs_claim ON tidemark_runs (claim_at) WHERE claim_at IS NOT NULL;
-- A run that is open has its turn or waits for it. Two indexes, so that what has
-- its turn is found however many wait.
CREATE INDEX tidemark_runs_turn ON tidemark_runs (job_id, target) WHERE claim_at IS NOT NULL;
CREATE INDEX tidemark_runs_waiting ON tidemark_runs (job_id, target, fire_time, id) WHERE claim_at IS NULL AND finished_at IS NULL;
CREATE INDEX tidemark_runs_review ON tidemark_runs (job_id, target) WHERE review;

CREATE TABLE tidemark_attempts (                  -- ended attempts that were not a run's last
    run_id      INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    node        TEXT NOT NULL,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    outcome     TEXT NOT NULL,
    exit_code   INTEGER,
    message     TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, attempt)
);

CREATE TABLE tidemark_outputs (
    run_id     INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    head       BLOB NOT NULL,
    tail       BLOB NOT NULL,
    size       INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, attempt)
);
CREATE INDEX tidemark_outputs_age ON tidemark_outputs (updated_at);

CREATE TABLE tidemark_ranges (                    -- due instants that made no run of their own
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id      INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    count       INTEGER NOT NULL CHECK (count > 0),
    outcome     TEXT NOT NULL CHECK (outcome IN ('missed', 'coalesced', 'skipped', 'superseded')),
    reason      TEXT NOT NULL,
    into_fire   INTEGER,                      -- coalesced: fire time of the run that covers them
    recorded_at INTEGER NOT NULL,
    CHECK (first <= last)
);
CREATE INDEX tidemark_ranges_job ON tidemark_ranges (job_id, last);

CREATE TABLE tidemark_nodes (
    name         TEXT PRIMARY KEY,
    instance     TEXT NOT NULL,
    host         TEXT NOT NULL,
    pid          INTEGER NOT NULL,
    version      TEXT NOT NULL,
    started_at   INTEGER NOT NULL,
    seen_at      INTEGER NOT NULL,
    config_hash  TEXT NOT NULL,
    config_at    INTEGER,
    config_err   TEXT NOT NULL,
    revision     INTEGER NOT NULL,
    running      INTEGER NOT NULL,
    clock_offset INTEGER NOT NULL                  -- microseconds, node minus store
);
