-- +goose Up

-- Jobs that ended lately: what is shown of them, without their bodies. Times are Unix times in ns.
CREATE TABLE ended_jobs (
	id       INTEGER PRIMARY KEY,
	lane     INTEGER NOT NULL,
	event    INTEGER NOT NULL, -- offset of the event that it reported; 0 for none
	term     INTEGER NOT NULL, -- of the server that had claimed it; 0 for none
	state    INTEGER NOT NULL, -- 1: delivered, 2: became a dead letter, 3: deleted
	attempts INTEGER NOT NULL, -- that failed
	created  INTEGER NOT NULL,
	started  INTEGER NOT NULL, -- beginning of its last delivery; 0 for none
	ended    INTEGER NOT NULL,
	status   INTEGER NOT NULL, -- of the last answer; 0 if there was none
	name     text NOT NULL,
	okey     text NOT NULL, -- ordering key
	url      text NOT NULL,
	error    text NOT NULL, -- of its last attempt that failed
	response text NOT NULL -- beginning of the last answer
);
CREATE INDEX ended_jobs_ended ON ended_jobs (ended);

-- -1, 0 or 1: low, normal or high. A new job that is not normal is in a share of its own, also without a name.
ALTER TABLE job_bodies ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dead_jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;

-- +goose Down
UPDATE jobs SET due = 0 WHERE due < -4096;
ALTER TABLE dead_jobs DROP COLUMN priority;
ALTER TABLE job_bodies DROP COLUMN priority;
DROP TABLE ended_jobs;
