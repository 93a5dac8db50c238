-- Times are milliseconds since 1970, UTC. This is PostgreSQL's dialect; `schema.rs` says the one phrase in which SQLite
-- differs.

-- One row for every lane that has jobs. It holds the lease: at most one job of a lane has one, whatever the program does.
-- Whoever changes the jobs of a lane locks its row first.
CREATE TABLE lanes (
    lane TEXT PRIMARY KEY,
    job BIGINT,
    token BIGINT,
    until BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE jobs (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane TEXT NOT NULL REFERENCES lanes (lane),
    topic TEXT,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('ready', 'running', 'done', 'dead')),
    priority BIGINT NOT NULL,
    due BIGINT NOT NULL,
    -- How often it was claimed; a job that is revived starts again.
    attempts BIGINT NOT NULL DEFAULT 0,
    -- How often it was ever claimed: what a worker must know to say anything of the job.
    token BIGINT NOT NULL DEFAULT 0,
    -- How many further ones were folded into it while it waited.
    joined BIGINT NOT NULL DEFAULT 0,
    worker TEXT,
    error TEXT,
    created BIGINT NOT NULL,
    ended BIGINT
);

CREATE UNIQUE INDEX jobs_waiting ON jobs (lane, topic) WHERE state = 'ready' AND topic IS NOT NULL;
-- What was started comes first.
CREATE INDEX jobs_open ON jobs (lane, state DESC, priority, due, id) WHERE state IN ('ready', 'running');
CREATE INDEX jobs_kinds ON jobs (lane, kind) WHERE state IN ('ready', 'running');
CREATE INDEX jobs_due ON jobs (lane, due) WHERE state IN ('ready', 'running');
CREATE INDEX jobs_ended ON jobs (state, ended) WHERE state IN ('done', 'dead');

CREATE TABLE deliveries (
    route TEXT NOT NULL,
    key TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (route, key)
);

CREATE INDEX deliveries_at ON deliveries (at);

CREATE TABLE delivery_jobs (
    route TEXT NOT NULL,
    key TEXT NOT NULL,
    job BIGINT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    PRIMARY KEY (route, key, job),
    FOREIGN KEY (route, key) REFERENCES deliveries (route, key) ON DELETE CASCADE
);

CREATE INDEX delivery_jobs_job ON delivery_jobs (job);

CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    spec TEXT NOT NULL,
    next BIGINT NOT NULL,
    fired BIGINT
);

CREATE TABLE commands (
    repository TEXT NOT NULL,
    comment TEXT NOT NULL,
    n BIGINT NOT NULL,
    request TEXT NOT NULL,
    author_id BIGINT NOT NULL,
    author TEXT NOT NULL,
    verb TEXT NOT NULL,
    outcome TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (repository, comment, n)
);

CREATE INDEX commands_author ON commands (repository, author_id, at);
CREATE INDEX commands_at ON commands (at);

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    cluster TEXT NOT NULL,
    started BIGINT NOT NULL,
    finished BIGINT,
    outcome TEXT NOT NULL,
    problem TEXT
);

CREATE INDEX runs_started ON runs (started);

CREATE TABLE pages (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    json TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (kind, key)
);
