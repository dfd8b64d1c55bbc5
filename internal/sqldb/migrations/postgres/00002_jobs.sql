-- +goose Up

-- One row: the number of the latest job. A job's number is never given again.
CREATE TABLE job_numbers (
	id   bigint PRIMARY KEY,
	last bigint NOT NULL
);
INSERT INTO job_numbers (id, last) VALUES (1, 0);

-- Durations are in ns.
CREATE TABLE queues (
	num         bigint PRIMARY KEY,
	name        text NOT NULL UNIQUE,
	paused      integer NOT NULL,
	concurrency integer NOT NULL,
	rate        double precision NOT NULL,    -- deliveries per second, 0 for no limit
	attempts    integer NOT NULL, -- after which a job is a dead letter
	backoff     bigint NOT NULL, -- of the first retry
	max_backoff bigint NOT NULL,
	max_age     bigint NOT NULL,
	max_jobs    bigint NOT NULL
);
INSERT INTO queues (num, name, paused, concurrency, rate, attempts, backoff, max_backoff, max_age, max_jobs)
	VALUES (1, 'default', 0, 32, 0, 100, 1000000000, 3600000000000, 259200000000000, 10000000);

CREATE TABLE endpoints (
	num      bigint PRIMARY KEY,
	name     text NOT NULL UNIQUE,
	kind     text NOT NULL,
	target   text NOT NULL,
	settings text NOT NULL, -- JSON, of the kind
	disabled integer NOT NULL,
	note     text NOT NULL  -- why it is disabled
);

-- An event that passes a route becomes a job. Lists are separated by commas; empty: all.
CREATE TABLE routes (
	num      bigint PRIMARY KEY,
	name     text NOT NULL UNIQUE,
	types    text NOT NULL,
	reasons  text NOT NULL,
	grp      text NOT NULL,
	device   text NOT NULL,
	hushed   integer NOT NULL, -- also events that nobody is to be alarmed by
	queue    bigint NOT NULL,
	endpoint bigint NOT NULL,
	paused   integer NOT NULL
);

-- Jobs that are not done. One that nobody has looked at yet has neither due nor held. claim is the number of the claim that it is worked on
-- under, and then due the end of its lease. One that waits has the instant in due, and in held its key if those with the same key wait behind
-- it; they have held, too, and due 2^63-1.
CREATE TABLE jobs (
	id       bigint PRIMARY KEY,
	lane     bigint NOT NULL, -- queue * 2^32 + endpoint
	event    bigint NOT NULL, -- offset of the event that it tells of; 0: it has a row in job_bodies
	okey     bigint NOT NULL, -- hash of lane and ordering key; 0 for none
	claim    bigint NOT NULL DEFAULT 0,
	attempts integer NOT NULL DEFAULT 0,
	due      bigint, -- Unix time in ns
	held     bigint,
	error    text
);
CREATE INDEX jobs_due ON jobs (lane, due, id) WHERE due IS NOT NULL;
CREATE INDEX jobs_held ON jobs (held, id) WHERE held IS NOT NULL;

CREATE TABLE job_bodies (
	id           bigint PRIMARY KEY,
	message      text NOT NULL, -- id that the receiver sees
	okey         text NOT NULL, -- ordering key
	url          text NOT NULL, -- where to, without an endpoint
	content_type text NOT NULL,
	data         bytea NOT NULL,
	created      bigint NOT NULL,
	deadline     bigint NOT NULL -- 0 for none
);

-- Idempotency keys of the last day.
CREATE TABLE job_keys (
	name    text PRIMARY KEY,
	id      bigint NOT NULL,
	created bigint NOT NULL
);

-- Dead letters.
CREATE TABLE dead_jobs (
	id           bigint PRIMARY KEY,
	lane         bigint NOT NULL,
	message      text NOT NULL,
	okey         text NOT NULL,
	url          text NOT NULL,
	content_type text NOT NULL,
	data         bytea NOT NULL,
	created      bigint NOT NULL,
	deadline     bigint NOT NULL,
	attempts     integer NOT NULL,
	error        text NOT NULL,
	status       integer NOT NULL, -- of the last answer, 0 if there was none
	response     text NOT NULL,    -- its beginning
	died         bigint NOT NULL
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
