-- +goose Up

-- Runs of playbooks: what was begun, and what has become of it. Times are Unix time in ns, 0 for none.
CREATE TABLE IF NOT EXISTS runs (
	id       BIGINT PRIMARY KEY, -- number of the job that works on it
	playbook VARBINARY(255) NOT NULL,
	subject  VARBINARY(255) NOT NULL,
	event    BIGINT NOT NULL, -- offset of the event that began it; 0 if none did
	state    INT NOT NULL, -- 0 running, 1 waiting, 2 done, 3 failed, 4 recovered, 5 canceled
	diverted INT NOT NULL, -- the steps after a recovery are run
	started  BIGINT NOT NULL,
	ended    BIGINT NOT NULL,
	wake     BIGINT NOT NULL, -- until when it waits
	error    BLOB NOT NULL,
	KEY runs_open (subject, state),
	KEY runs_ended (ended)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- The steps of a run that were begun.
CREATE TABLE IF NOT EXISTS run_steps (
	run      BIGINT NOT NULL,
	step     VARBINARY(255) NOT NULL,
	state    INT NOT NULL, -- 1 waiting, 2 done, 3 failed
	attempts INT NOT NULL, -- that failed; of a probe, questions
	started  BIGINT NOT NULL,
	ended    BIGINT NOT NULL,
	wake     BIGINT NOT NULL,
	holds    INT NOT NULL, -- of a condition: 1 if it holds
	output   BLOB NOT NULL,
	error    BLOB NOT NULL,
	PRIMARY KEY (run, step)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE IF EXISTS run_steps;
DROP TABLE IF EXISTS runs;
