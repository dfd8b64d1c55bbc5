-- +goose Up

-- Runs of playbooks: what was begun, and what has become of it. Times are Unix time in ns, 0 for none.
CREATE TABLE runs (
	id       INTEGER PRIMARY KEY, -- number of the job that works on it
	playbook TEXT NOT NULL,
	subject  TEXT NOT NULL,
	event    INTEGER NOT NULL, -- offset of the event that began it; 0 if none did
	state    INTEGER NOT NULL, -- 0 running, 1 waiting, 2 done, 3 failed, 4 recovered, 5 canceled
	diverted INTEGER NOT NULL, -- the steps after a recovery are run
	started  INTEGER NOT NULL,
	ended    INTEGER NOT NULL,
	wake     INTEGER NOT NULL, -- until when it waits
	error    TEXT NOT NULL
);
CREATE INDEX runs_open ON runs (subject) WHERE state < 2;
CREATE INDEX runs_ended ON runs (ended) WHERE state >= 2;

-- The steps of a run that were begun.
CREATE TABLE run_steps (
	run      INTEGER NOT NULL,
	step     TEXT NOT NULL,
	state    INTEGER NOT NULL, -- 1 waiting, 2 done, 3 failed
	attempts INTEGER NOT NULL, -- that failed; of a probe, questions
	started  INTEGER NOT NULL,
	ended    INTEGER NOT NULL,
	wake     INTEGER NOT NULL,
	holds    INTEGER NOT NULL, -- of a condition: 1 if it holds
	output   TEXT NOT NULL,
	error    TEXT NOT NULL,
	PRIMARY KEY (run, step)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE run_steps;
DROP TABLE runs;
