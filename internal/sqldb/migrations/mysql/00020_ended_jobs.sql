-- +goose Up

-- Jobs that ended lately: what is shown of them, without their bodies. Times are Unix times in ns.
CREATE TABLE IF NOT EXISTS ended_jobs (
	id       BIGINT PRIMARY KEY,
	lane     BIGINT NOT NULL,
	event    BIGINT NOT NULL, -- offset of the event that it reported; 0 for none
	term     BIGINT NOT NULL, -- of the server that had claimed it; 0 for none
	state    INT NOT NULL, -- 1: delivered, 2: became a dead letter, 3: deleted
	attempts INT NOT NULL, -- that failed
	created  BIGINT NOT NULL,
	started  BIGINT NOT NULL, -- beginning of its last delivery; 0 for none
	ended    BIGINT NOT NULL,
	status   INT NOT NULL, -- of the last answer; 0 if there was none
	name     VARBINARY(255) NOT NULL,
	okey     VARBINARY(255) NOT NULL, -- ordering key
	url      BLOB NOT NULL,
	error    BLOB NOT NULL, -- of its last attempt that failed
	response BLOB NOT NULL, -- beginning of the last answer
	KEY ended_jobs_ended (ended)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- -1, 0 or 1: low, normal or high. A new job that is not normal is in a share of its own, also without a name.
ALTER TABLE job_bodies ADD COLUMN priority SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE dead_jobs ADD COLUMN priority SMALLINT NOT NULL DEFAULT 0;
-- high, normal or low; default: normal
ALTER TABLE holter_outbox ADD COLUMN priority VARCHAR(255);

-- +goose Down
UPDATE jobs SET due = 0 WHERE due < -4096;
ALTER TABLE holter_outbox DROP COLUMN priority;
ALTER TABLE dead_jobs DROP COLUMN priority;
ALTER TABLE job_bodies DROP COLUMN priority;
DROP TABLE IF EXISTS ended_jobs;
