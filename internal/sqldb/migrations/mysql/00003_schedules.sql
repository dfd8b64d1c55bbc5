-- +goose Up

-- One row: the latest number of a schedule or of a run of one. A number is never given again.
CREATE TABLE IF NOT EXISTS schedule_numbers (
	id   BIGINT PRIMARY KEY,
	last BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
INSERT IGNORE INTO schedule_numbers (id, last) VALUES (1, 0);

-- Instants are Unix time in ns, durations in ns.
CREATE TABLE IF NOT EXISTS schedules (
	num      BIGINT PRIMARY KEY,
	name     VARBINARY(255) NOT NULL UNIQUE,
	kind     VARBINARY(64) NOT NULL,
	spec     BLOB NOT NULL,    -- a crontab expression, or an instant
	zone     VARBINARY(255) NOT NULL,
	settings MEDIUMBLOB NOT NULL,    -- JSON, of the kind
	overlap  BIGINT NOT NULL, -- what becomes of an instant while a run goes on
	misfire  BIGINT NOT NULL, -- what becomes of instants that passed
	jitter   BIGINT NOT NULL,
	once     BIGINT NOT NULL, -- its runs are not begun again after a crash
	paused   BIGINT NOT NULL,
	began    BIGINT NOT NULL, -- periods count from there
	last     BIGINT NOT NULL, -- all instants up to it were handled
	due      BIGINT NOT NULL, -- the next instant, 2^63-1 for none
	runs     BIGINT NOT NULL, -- number of its latest run
	claim    BIGINT NOT NULL, -- of the latest change: what is changed under another number is left alone
	KEY schedules_due (due)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Runs: idle, claimed, running, and then done, failed, lost or skipped.
CREATE TABLE IF NOT EXISTS schedule_runs (
	id        BIGINT PRIMARY KEY,
	schedule  BIGINT NOT NULL,
	name      VARBINARY(255) NOT NULL,    -- of the schedule
	kind      VARBINARY(64) NOT NULL,
	number    BIGINT NOT NULL, -- among the runs of the schedule, 0 for one that was skipped
	scheduled BIGINT NOT NULL,
	ready     BIGINT NOT NULL, -- not to be claimed before
	serial    BIGINT NOT NULL, -- waits for the others of the schedule
	once      BIGINT NOT NULL,
	by_hand   BIGINT NOT NULL,
	state     VARBINARY(16) NOT NULL,
	owner     VARBINARY(255) NOT NULL,
	claim     BIGINT NOT NULL,
	lease     BIGINT NOT NULL, -- of one that is claimed or running: others may take it away afterwards
	attempt   BIGINT NOT NULL, -- how often it was begun; of one that was skipped, how many instants it stands for
	started   BIGINT NOT NULL, -- first; 0 for never
	ended     BIGINT NOT NULL,
	code      BIGINT NOT NULL,
	output    BLOB NOT NULL,
	error     BLOB NOT NULL,
	KEY schedule_runs_state (state, ready, id),
	KEY schedule_runs_schedule (schedule, id),
	KEY schedule_runs_kind (kind, state),
	KEY schedule_runs_ended (ended)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE IF EXISTS schedule_runs;
DROP TABLE IF EXISTS schedules;
DROP TABLE IF EXISTS schedule_numbers;
