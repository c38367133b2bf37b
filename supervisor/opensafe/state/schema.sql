-- Everything but `parked` and the texts of `written` is a fold of the audit log and can be rebuilt from it.
-- How many records are folded, and the leaf hash of the last.
CREATE TABLE tip (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    folded INTEGER NOT NULL,
    leaf   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    session_id      TEXT PRIMARY KEY,
    principal       TEXT NOT NULL,
    agent           TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    trace_id        TEXT NOT NULL,
    created_us      INTEGER NOT NULL,
    closed          INTEGER NOT NULL DEFAULT 0,
    counts          TEXT NOT NULL DEFAULT '{}',
    recent_tools    TEXT NOT NULL DEFAULT '[]',
    usage           TEXT NOT NULL DEFAULT '{}',
    limits          TEXT NOT NULL DEFAULT '{}',
    recent          TEXT NOT NULL DEFAULT '{}',
    taints          TEXT NOT NULL DEFAULT '[]'
) STRICT, WITHOUT ROWID;

-- number: the index of the record of its making, which orders lists.
CREATE TABLE sandboxes (
    sandbox_id     TEXT PRIMARY KEY,
    number         INTEGER NOT NULL,
    session_id     TEXT NOT NULL REFERENCES sessions,
    principal      TEXT NOT NULL,
    template       TEXT NOT NULL,
    image_digest   TEXT NOT NULL,
    network        TEXT NOT NULL,
    limits         TEXT NOT NULL,
    labels         TEXT NOT NULL,
    created_us     INTEGER NOT NULL,
    state          TEXT NOT NULL,
    cause          TEXT NOT NULL,
    changed_us     INTEGER NOT NULL,
    expires_us     INTEGER NOT NULL,
    idle_timeout_s INTEGER NOT NULL,
    idle_action    TEXT NOT NULL,
    -- When it was made or resumed, or a call in it began or ended, whichever was last.
    active_us      INTEGER NOT NULL,
    taints         TEXT NOT NULL DEFAULT '[]'
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX sandboxes_of ON sandboxes (principal, number);
CREATE INDEX sandboxes_in ON sandboxes (session_id) WHERE state <> 'deleted';
CREATE INDEX sandboxes_live ON sandboxes (state) WHERE state <> 'deleted';

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
    allowed_us  INTEGER NOT NULL DEFAULT 0,
    effects     TEXT NOT NULL DEFAULT '[]',
    outcome     TEXT,
    purpose     TEXT NOT NULL,
    tool        TEXT NOT NULL,
    decided_us  INTEGER NOT NULL,
    tag         TEXT NOT NULL DEFAULT '',
    asked       TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (session_id, call_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX calls_by_time ON calls (session_id, decided_us, call_id) WHERE purpose = 'call';
CREATE INDEX calls_by_tag ON calls (session_id, tag, decided_us, call_id) WHERE tag <> '';

CREATE INDEX calls_open ON calls (session_id) WHERE outcome IS NULL;
CREATE INDEX calls_open_in ON calls (sandbox_id) WHERE outcome IS NULL;
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
    reason     TEXT NOT NULL DEFAULT '',
    seconded   TEXT NOT NULL DEFAULT '',
    changes    INTEGER NOT NULL DEFAULT 0,
    stdin      INTEGER NOT NULL DEFAULT 0,
    purpose    TEXT NOT NULL,
    described  TEXT NOT NULL DEFAULT '',
    pinned     TEXT NOT NULL DEFAULT '',
    -- 1 while the call waits: for a decision, or for its approved permit to be fetched.
    waits      INTEGER NOT NULL DEFAULT 1
) STRICT, WITHOUT ROWID;

CREATE INDEX reviews_waiting ON reviews (created_us) WHERE waits = 1;
CREATE INDEX reviews_pending ON reviews (created_us) WHERE state = 'pending';
CREATE INDEX reviews_pending_in ON reviews (sandbox_id) WHERE state = 'pending';

-- What each principal used up, an hour a row.
CREATE TABLE principal_usage (
    principal     TEXT NOT NULL,
    hour          INTEGER NOT NULL,
    calls         INTEGER NOT NULL,
    wall_us       INTEGER NOT NULL,
    output_bytes  INTEGER NOT NULL,
    requests      INTEGER NOT NULL,
    egress_bytes  INTEGER NOT NULL,
    ingress_bytes INTEGER NOT NULL,
    tokens        INTEGER NOT NULL,
    cost_microusd INTEGER NOT NULL,
    PRIMARY KEY (principal, hour)
) STRICT, WITHOUT ROWID;

-- What each open session used of the network with each host.
CREATE TABLE session_hosts (
    session_id    TEXT NOT NULL,
    name          TEXT NOT NULL,
    requests      INTEGER NOT NULL,
    egress_bytes  INTEGER NOT NULL,
    ingress_bytes INTEGER NOT NULL,
    PRIMARY KEY (session_id, name)
) STRICT, WITHOUT ROWID;

-- Bans in force; agent '' is the whole principal.
CREATE TABLE bans (
    principal  TEXT NOT NULL,
    agent      TEXT NOT NULL,
    banned_us  INTEGER NOT NULL,
    decided_by TEXT NOT NULL,
    reason     TEXT NOT NULL,
    PRIMARY KEY (principal, agent)
) STRICT, WITHOUT ROWID;

-- The bundle in force, and the last one that was refused or removed.
CREATE TABLE bundles (
    state    TEXT PRIMARY KEY,
    digest   TEXT NOT NULL,
    number   INTEGER NOT NULL,
    revision TEXT NOT NULL,
    signer   TEXT NOT NULL,
    reason   TEXT NOT NULL,
    time_us  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The full arguments of parked calls, which the log holds only sealed.
CREATE TABLE parked (
    review_id TEXT PRIMARY KEY,
    arguments BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Files that calls of open sessions wrote; texts: what each may hold, NULL where that is not known. The path '' stands
-- for more files than are kept.
CREATE TABLE written (
    session_id TEXT NOT NULL,
    path       TEXT NOT NULL,
    texts      TEXT,
    PRIMARY KEY (session_id, path)
) STRICT, WITHOUT ROWID;
