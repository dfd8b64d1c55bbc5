-- +goose Up

-- One row: the number of the latest job. A job's number is never given again.
CREATE TABLE IF NOT EXISTS job_numbers (
	id   BIGINT PRIMARY KEY,
	last BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
INSERT IGNORE INTO job_numbers (id, last) VALUES (1, 0);

-- Durations are in ns.
CREATE TABLE IF NOT EXISTS queues (
	num         BIGINT PRIMARY KEY,
	name        VARBINARY(255) NOT NULL UNIQUE,
	paused      INT NOT NULL,
	concurrency INT NOT NULL,
	rate        DOUBLE NOT NULL,    -- deliveries per second, 0 for no limit
	attempts    INT NOT NULL, -- after which a job is a dead letter
	backoff     BIGINT NOT NULL, -- of the first retry
	max_backoff BIGINT NOT NULL,
	max_age     BIGINT NOT NULL,
	max_jobs    BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
INSERT IGNORE INTO queues (num, name, paused, concurrency, rate, attempts, backoff, max_backoff, max_age, max_jobs)
	VALUES (1, 'default', 0, 32, 0, 100, 1000000000, 3600000000000, 259200000000000, 10000000);

CREATE TABLE IF NOT EXISTS endpoints (
	num      BIGINT PRIMARY KEY,
	name     VARBINARY(255) NOT NULL UNIQUE,
	kind     VARBINARY(64) NOT NULL,
	target   BLOB NOT NULL,
	settings MEDIUMBLOB NOT NULL, -- JSON, of the kind
	disabled INT NOT NULL,
	note     BLOB NOT NULL  -- why it is disabled
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- An event that passes a route becomes a job. Lists are separated by commas; empty: all.
CREATE TABLE IF NOT EXISTS routes (
	num      BIGINT PRIMARY KEY,
	name     VARBINARY(255) NOT NULL UNIQUE,
	types    BLOB NOT NULL,
	reasons  BLOB NOT NULL,
	grp      BLOB NOT NULL,
	device   BLOB NOT NULL,
	hushed   INT NOT NULL, -- also events that nobody is to be alarmed by
	queue    BIGINT NOT NULL,
	endpoint BIGINT NOT NULL,
	paused   INT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Jobs that are not done. One that nobody has looked at yet has neither due nor held. claim is the number of the claim that it is worked on
-- under, and then due the end of its lease. One that waits has the instant in due, and in held its key if those with the same key wait behind
-- it; they have held, too, and due 2^63-1.
CREATE TABLE IF NOT EXISTS jobs (
	id       BIGINT PRIMARY KEY,
	lane     BIGINT NOT NULL, -- queue * 2^32 + endpoint
	event    BIGINT NOT NULL, -- offset of the event that it tells of; 0: it has a row in job_bodies
	okey     BIGINT NOT NULL, -- hash of lane and ordering key; 0 for none
	claim    BIGINT NOT NULL DEFAULT 0,
	attempts INT NOT NULL DEFAULT 0,
	due      BIGINT, -- Unix time in ns
	held     BIGINT,
	error    BLOB,
	KEY jobs_due (lane, due, id),
	KEY jobs_held (held, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS job_bodies (
	id           BIGINT PRIMARY KEY,
	message      VARBINARY(255) NOT NULL, -- id that the receiver sees
	okey         VARBINARY(255) NOT NULL, -- ordering key
	url          BLOB NOT NULL, -- where to, without an endpoint
	content_type VARBINARY(255) NOT NULL,
	data         MEDIUMBLOB NOT NULL,
	created      BIGINT NOT NULL,
	deadline     BIGINT NOT NULL -- 0 for none
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Idempotency keys of the last day.
CREATE TABLE IF NOT EXISTS job_keys (
	name    VARBINARY(255) PRIMARY KEY,
	id      BIGINT NOT NULL,
	created BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Dead letters.
CREATE TABLE IF NOT EXISTS dead_jobs (
	id           BIGINT PRIMARY KEY,
	lane         BIGINT NOT NULL,
	message      VARBINARY(255) NOT NULL,
	okey         VARBINARY(255) NOT NULL,
	url          BLOB NOT NULL,
	content_type VARBINARY(255) NOT NULL,
	data         MEDIUMBLOB NOT NULL,
	created      BIGINT NOT NULL,
	deadline     BIGINT NOT NULL,
	attempts     INT NOT NULL,
	error        BLOB NOT NULL,
	status       INT NOT NULL, -- of the last answer, 0 if there was none
	response     BLOB NOT NULL,    -- its beginning
	died         BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE IF EXISTS dead_jobs;
DROP TABLE IF EXISTS job_keys;
DROP TABLE IF EXISTS job_bodies;
DROP TABLE IF EXISTS jobs;
DROP TABLE IF EXISTS routes;
DROP TABLE IF EXISTS endpoints;
DROP TABLE IF EXISTS queues;
DROP TABLE IF EXISTS job_numbers;
