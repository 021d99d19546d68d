-- +goose Up
-- Names are not qualified: the tables live in the connection's schema.
-- No foreign keys: a run is inserted only under its job's lock, pruning deletes
-- what belongs together in one transaction, and the checks would cost as much as
-- the insert.

CREATE TABLE tidemark_meta (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    created_at timestamptz NOT NULL DEFAULT now(),
    revision   bigint NOT NULL DEFAULT 0          -- highest revision of a config file ever loaded
);
INSERT INTO tidemark_meta DEFAULT VALUES;

CREATE TABLE tidemark_jobs (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version         bigint NOT NULL DEFAULT 1,    -- grows with every change
    name            text NOT NULL UNIQUE,
    definition      text NOT NULL,                -- as written in the file, canonical JSON
    hash            text NOT NULL,
    schedule        text NOT NULL,                -- canonical JSON
    fingerprint     text NOT NULL,
    overlap         text NOT NULL,
    coalesce        text NOT NULL,
    max_instances   integer NOT NULL,             -- 0: no bound
    windowed        boolean NOT NULL,
    uses_window     boolean NOT NULL,
    watermark_start timestamptz,
    file_paused     boolean NOT NULL,
    last_planned    timestamptz NOT NULL,
    counts_from     timestamptz NOT NULL,         -- since when the present schedule counts: made, changed, or resumed
    next_fire       timestamptz,                  -- null: never again
    wake_at         timestamptz,                  -- when the planner must look: next fire, or the end of a pause; null: not at all
    due             bigint NOT NULL DEFAULT 0,
    pruned          bigint NOT NULL DEFAULT 0,
    pruned_through  timestamptz,
    paused_at       timestamptz,
    paused_until    timestamptz,
    pause_reason    text NOT NULL DEFAULT '',
    paused_by       text NOT NULL DEFAULT '',
    resumed_at      timestamptz,
    resume_policy   text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL,
    removed_at      timestamptz
);
CREATE INDEX tidemark_jobs_wake ON tidemark_jobs (wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE tidemark_targets (
    job_id            bigint NOT NULL,
    target            text NOT NULL,
    watermark         timestamptz,
    last_state        text NOT NULL DEFAULT '',
    last_finished_at  timestamptz,
    last_success_at   timestamptz,
    last_success_fire timestamptz,
    last_success_key  text NOT NULL DEFAULT '',
    review            boolean NOT NULL DEFAULT false,
    PRIMARY KEY (job_id, target)
) WITH (fillfactor = 80);

CREATE TABLE tidemark_runs (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key                text NOT NULL CONSTRAINT tidemark_runs_key UNIQUE,   -- a run exists at most once
    job_id             bigint NOT NULL,
    target             text NOT NULL,
    fire_time          timestamptz NOT NULL,
    trigger            text NOT NULL CHECK (trigger IN ('schedule', 'catch_up', 'manual')),
    logical_run        integer NOT NULL DEFAULT 1,
    state              text NOT NULL CHECK (state IN ('pending', 'running', 'retrying', 'succeeded', 'failed', 'canceled', 'missed', 'skipped', 'coalesced')),
    reason             text NOT NULL DEFAULT '',
    review             boolean NOT NULL DEFAULT false,
    coalesced_into     text NOT NULL DEFAULT '',
    covers             bigint NOT NULL DEFAULT 1,
    not_before         timestamptz NOT NULL,
    claim_at           timestamptz,               -- when anybody may claim it; null: waits its turn, or has ended
    deadline           timestamptz,
    attempt            integer NOT NULL DEFAULT 0,
    failures           integer NOT NULL DEFAULT 0,
    node               text NOT NULL DEFAULT '',
    created_at         timestamptz NOT NULL,
    started_at         timestamptz,
    attempt_started_at timestamptz,
    finished_at        timestamptz,
    window_from        timestamptz,
    window_to          timestamptz,
    own_window         boolean NOT NULL DEFAULT false,
    fingerprint        text NOT NULL DEFAULT '',
    cancel_requested   boolean NOT NULL DEFAULT false,
    exit_code          integer,
    message            text NOT NULL DEFAULT '',
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
    run_id      bigint NOT NULL,
    attempt     integer NOT NULL,
    node        text NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    outcome     text NOT NULL,
    exit_code   integer,
    message     text NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, attempt)
);

CREATE TABLE tidemark_outputs (
    run_id     bigint NOT NULL,
    attempt    integer NOT NULL,
    head       bytea NOT NULL,
    tail       bytea NOT NULL,
    size       bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, attempt)
);
CREATE INDEX tidemark_outputs_age ON tidemark_outputs (updated_at);

CREATE TABLE tidemark_ranges (                    -- due instants that made no run of their own
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id      bigint NOT NULL,
    first       timestamptz NOT NULL,
    last        timestamptz NOT NULL,
    count       bigint NOT NULL CHECK (count > 0),
    outcome     text NOT NULL CHECK (outcome IN ('missed', 'coalesced', 'skipped', 'superseded')),
    reason      text NOT NULL,
    into_fire   timestamptz,                      -- coalesced: fire time of the run that covers them
    recorded_at timestamptz NOT NULL,
    CHECK (first <= last)
);
CREATE INDEX tidemark_ranges_job ON tidemark_ranges (job_id, last);

CREATE TABLE tidemark_nodes (
    name         text PRIMARY KEY,
    instance     text NOT NULL,
    host         text NOT NULL,
    pid          integer NOT NULL,
    version      text NOT NULL,
    started_at   timestamptz NOT NULL,
    seen_at      timestamptz NOT NULL,
    config_hash  text NOT NULL,
    config_at    timestamptz,
    config_err   text NOT NULL,
    revision     bigint NOT NULL,
    running      integer NOT NULL,
    clock_offset bigint NOT NULL                  -- microseconds, node minus store
);
