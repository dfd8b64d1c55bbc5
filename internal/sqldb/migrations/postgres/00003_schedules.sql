-- +goose Up

-- One row: the latest number of a schedule or of a run of one. A number is never given again.
CREATE TABLE schedule_numbers (
	id   bigint PRIMARY KEY,
	last bigint NOT NULL
);
INSERT INTO schedule_numbers (id, last) VALUES (1, 0);

-- Instants are Unix time in ns, durations in ns.
CREATE TABLE schedules (
	num      bigint PRIMARY KEY,
	name     text NOT NULL UNIQUE,
	kind     text NOT NULL,
	spec     text NOT NULL,    -- a crontab expression, or an instant
	zone     text NOT NULL,
	settings text NOT NULL,    -- JSON, of the kind
	overlap  bigint NOT NULL, -- what becomes of an instant while a run goes on
	misfire  bigint NOT NULL, -- what becomes of instants that passed
	jitter   bigint NOT NULL,
	once     bigint NOT NULL, -- its runs are not begun again after a crash
	paused   bigint NOT NULL,
	began    bigint NOT NULL, -- periods count from there
	last     bigint NOT NULL, -- all instants up to it were handled
	due      bigint NOT NULL, -- the next instant, 2^63-1 for none
	runs     bigint NOT NULL, -- number of its latest run
	claim    bigint NOT NULL  -- of the latest change: what is changed under another number is left alone
);
CREATE INDEX schedules_due ON schedules (due);

-- Runs: idle, claimed, running, and then done, failed, lost or skipped.
CREATE TABLE schedule_runs (
	id        bigint PRIMARY KEY,
	schedule  bigint NOT NULL,
	name      text NOT NULL,    -- of the schedule
	kind      text NOT NULL,
	number    bigint NOT NULL, -- among the runs of the schedule, 0 for one that was skipped
	scheduled bigint NOT NULL,
	ready     bigint NOT NULL, -- not to be claimed before
	serial    bigint NOT NULL, -- waits for the others of the schedule
	once      bigint NOT NULL,
	by_hand   bigint NOT NULL,
	state     text NOT NULL,
	owner     text NOT NULL,
	claim     bigint NOT NULL,
	lease     bigint NOT NULL, -- of one that is claimed or running: others may take it away afterwards
	attempt   bigint NOT NULL, -- how often it was begun; of one that was skipped, how many instants it stands for
	started   bigint NOT NULL, -- first; 0 for never
	ended     bigint NOT NULL,
	code      bigint NOT NULL,
	output    text NOT NULL,
	error     text NOT NULL
);
CREATE INDEX schedule_runs_state ON schedule_runs (state, ready, id);
CREATE INDEX schedule_runs_schedule ON schedule_runs (schedule, id);
CREATE INDEX schedule_runs_kind ON schedule_runs (kind, state);
CREATE INDEX schedule_runs_ended ON schedule_runs (ended);

-- +goose Down
DROP TABLE schedule_runs;
DROP TABLE schedules;
DROP TABLE schedule_numbers;
