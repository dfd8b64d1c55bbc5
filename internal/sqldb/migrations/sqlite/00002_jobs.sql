-- +goose Up

-- One row: the number of the latest job. A job's number is never given again.
CREATE TABLE job_numbers (
	id   INTEGER PRIMARY KEY,
	last INTEGER NOT NULL
);
INSERT INTO job_numbers (id, last) VALUES (1, 0);

-- Durations are in ns.
CREATE TABLE queues (
	num         INTEGER PRIMARY KEY,
	name        TEXT NOT NULL UNIQUE,
	paused      INTEGER NOT NULL,
	concurrency INTEGER NOT NULL,
	rate        REAL NOT NULL,    -- deliveries per second, 0 for no limit
	attempts    INTEGER NOT NULL, -- after which a job is a dead letter
	backoff     INTEGER NOT NULL, -- of the first retry
	max_backoff INTEGER NOT NULL,
	max_age     INTEGER NOT NULL,
	max_jobs    INTEGER NOT NULL
);
INSERT INTO queues (num, name, paused, concurrency, rate, attempts, backoff, max_backoff, max_age, max_jobs)
	VALUES (1, 'default', 0, 32, 0, 100, 1000000000, 3600000000000, 259200000000000, 10000000);

CREATE TABLE endpoints (
	num      INTEGER PRIMARY KEY,
	name     TEXT NOT NULL UNIQUE,
	kind     TEXT NOT NULL,
	target   TEXT NOT NULL,
	settings TEXT NOT NULL, -- JSON, of the kind
	disabled INTEGER NOT NULL,
	note     TEXT NOT NULL  -- why it is disabled
);

-- An event that passes a route becomes a job. Lists are separated by commas; empty: all.
CREATE TABLE routes (
	num      INTEGER PRIMARY KEY,
	name     TEXT NOT NULL UNIQUE,
	types    TEXT NOT NULL,
	reasons  TEXT NOT NULL,
	grp      TEXT NOT NULL,
	device   TEXT NOT NULL,
	hushed   INTEGER NOT NULL, -- also events that nobody is to be alarmed by
	queue    INTEGER NOT NULL,
	endpoint INTEGER NOT NULL,
	paused   INTEGER NOT NULL
);

-- Jobs that are not done. One that nobody has looked at yet has neither due nor held. claim is the number of the claim that it is worked on
-- under, and then due the end of its lease. One that waits has the instant in due, and in held its key if those with the same key wait behind
-- it; they have held, too, and due 2^63-1.
CREATE TABLE jobs (
	id       INTEGER PRIMARY KEY,
	lane     INTEGER NOT NULL, -- queue * 2^32 + endpoint
	event    INTEGER NOT NULL, -- offset of the event that it tells of; 0: it has a row in job_bodies
	okey     INTEGER NOT NULL, -- hash of lane and ordering key; 0 for none
	claim    INTEGER NOT NULL DEFAULT 0,
	attempts INTEGER NOT NULL DEFAULT 0,
	due      INTEGER, -- Unix time in ns
	held     INTEGER,
	error    TEXT
);
CREATE INDEX jobs_due ON jobs (lane, due, id) WHERE due IS NOT NULL;
CREATE INDEX jobs_held ON jobs (held, id) WHERE held IS NOT NULL;

CREATE TABLE job_bodies (
	id           INTEGER PRIMARY KEY,
	message      TEXT NOT NULL, -- id that the receiver sees
	okey         TEXT NOT NULL, -- ordering key
	url          TEXT NOT NULL, -- where to, without an endpoint
	content_type TEXT NOT NULL,
	data         BLOB NOT NULL,
	created      INTEGER NOT NULL,
	deadline     INTEGER NOT NULL -- 0 for none
);

-- Idempotency keys of the last day.
CREATE TABLE job_keys (
	name    TEXT PRIMARY KEY,
	id      INTEGER NOT NULL,
	created INTEGER NOT NULL
) WITHOUT ROWID;

-- Dead letters.
CREATE TABLE dead_jobs (
	id           INTEGER PRIMARY KEY,
	lane         INTEGER NOT NULL,
	message      TEXT NOT NULL,
	okey         TEXT NOT NULL,
	url          TEXT NOT NULL,
	content_type TEXT NOT NULL,
	data         BLOB NOT NULL,
	created      INTEGER NOT NULL,
	deadline     INTEGER NOT NULL,
	attempts     INTEGER NOT NULL,
	error        TEXT NOT NULL,
	status       INTEGER NOT NULL, -- of the last answer, 0 if there was none
	response     TEXT NOT NULL,    -- its beginning
	died         INTEGER NOT NULL
);

-- +goose Down
DROP TABLE dead_jobs;
DROP TABLE job_keys;
DROP TABLE job_bodies;
DROP TABLE jobs;
DROP TABLE routes;
DROP TABLE endpoints;
DROP TABLE queues;
DROP TABLE job_numbers;
