-- +goose Up

-- One row: the latest number of a schedule or of a run of one. A number is never given again.
CREATE TABLE schedule_numbers (
	id   INTEGER PRIMARY KEY,
	last INTEGER NOT NULL
);
INSERT INTO schedule_numbers (id, last) VALUES (1, 0);

-- Instants are Unix time in ns, durations in ns.
CREATE TABLE schedules (
	num      INTEGER PRIMARY KEY,
	name     TEXT NOT NULL UNIQUE,
	kind     TEXT NOT NULL,
	spec     TEXT NOT NULL,    -- a crontab expression, or an instant
	zone     TEXT NOT NULL,
	settings TEXT NOT NULL,    -- JSON, of the kind
	overlap  INTEGER NOT NULL, -- what becomes of an instant while a run goes on
	misfire  INTEGER NOT NULL, -- what becomes of instants that passed
	jitter   INTEGER NOT NULL,
	once     INTEGER NOT NULL, -- its runs are not begun again after a crash
	paused   INTEGER NOT NULL,
	began    INTEGER NOT NULL, -- periods count from there
	last     INTEGER NOT NULL, -- all instants up to it were handled
	due      INTEGER NOT NULL, -- the next instant, 2^63-1 for none
	runs     INTEGER NOT NULL, -- number of its latest run
	claim    INTEGER NOT NULL  -- of the latest change: what is changed under another number is left alone
);
CREATE INDEX schedules_due ON schedules (due);

-- Runs: idle, claimed, running, and then done, failed, lost or skipped.
CREATE TABLE schedule_runs (
	id        INTEGER PRIMARY KEY,
	schedule  INTEGER NOT NULL,
	name      TEXT NOT NULL,    -- of the schedule
	kind      TEXT NOT NULL,
	number    INTEGER NOT NULL, -- among the runs of the schedule, 0 for one that was skipped
	scheduled INTEGER NOT NULL,
	ready     INTEGER NOT NULL, -- not to be claimed before
	serial    INTEGER NOT NULL, -- waits for the others of the schedule
	once      INTEGER NOT NULL,
	by_hand   INTEGER NOT NULL,
	state     TEXT NOT NULL,
	owner     TEXT NOT NULL,
	claim     INTEGER NOT NULL,
	lease     INTEGER NOT NULL, -- of one that is claimed or running: others may take it away afterwards
	attempt   INTEGER NOT NULL, -- how often it was begun; of one that was skipped, how many instants it stands for
	started   INTEGER NOT NULL, -- first; 0 for never
	ended     INTEGER NOT NULL,
	code      INTEGER NOT NULL,
	output    TEXT NOT NULL,
	error     TEXT NOT NULL
);
CREATE INDEX schedule_runs_state ON schedule_runs (state, ready, id);
CREATE INDEX schedule_runs_schedule ON schedule_runs (schedule, id);
CREATE INDEX schedule_runs_kind ON schedule_runs (kind, state);
CREATE INDEX schedule_runs_ended ON schedule_runs (ended);

-- +goose Down
DROP TABLE schedule_runs;
DROP TABLE schedules;
DROP TABLE schedule_numbers;
