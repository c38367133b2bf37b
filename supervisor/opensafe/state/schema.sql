-- Everything but `parked` is a fold of the audit log and can be rebuilt from it.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    session_id      TEXT PRIMARY KEY,
    principal       TEXT NOT NULL,
    agent           TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    trace_id        TEXT NOT NULL,
    created_us      INTEGER NOT NULL,
    closed          INTEGER NOT NULL DEFAULT 0,
    calls           INTEGER NOT NULL DEFAULT 0,
    counts          TEXT NOT NULL DEFAULT '{}',
    recent_tools    TEXT NOT NULL DEFAULT '[]'
) STRICT, WITHOUT ROWID;

CREATE TABLE sandboxes (
    sandbox_id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions,
    principal  TEXT NOT NULL,
    template   TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    ended      TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE calls (
    session_id  TEXT NOT NULL,
    call_id     TEXT NOT NULL,
    digest      TEXT NOT NULL,
    sandbox_id  TEXT NOT NULL,
    decision_id TEXT NOT NULL,
    decision    TEXT NOT NULL,
    revision    TEXT NOT NULL,
    review_id   TEXT NOT NULL DEFAULT '',
    permit      TEXT NOT NULL DEFAULT '',
    expires_us  INTEGER NOT NULL DEFAULT 0,
    outcome     TEXT,
    PRIMARY KEY (session_id, call_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX calls_open ON calls (session_id) WHERE outcome IS NULL;
CREATE UNIQUE INDEX calls_permit ON calls (permit) WHERE permit <> '';

CREATE TABLE reviews (
    review_id  TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    call_id    TEXT NOT NULL,
    sandbox_id TEXT NOT NULL,
    principal  TEXT NOT NULL,
    tool       TEXT NOT NULL,
    sealed     TEXT NOT NULL,
    digest     TEXT NOT NULL,
    revision   TEXT NOT NULL,
    rules      TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    state      TEXT NOT NULL DEFAULT 'pending',
    decided_by TEXT NOT NULL DEFAULT '',
    reason     TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE INDEX reviews_pending ON reviews (created_us) WHERE state = 'pending';

-- The full arguments of parked calls, which the log holds only sealed.
CREATE TABLE parked (
    review_id TEXT PRIMARY KEY,
    arguments BLOB NOT NULL
) STRICT, WITHOUT ROWID;
