-- +goose Up

-- Runs of playbooks: what was begun, and what has become of it. Times are Unix time in ns, 0 for none.
CREATE TABLE runs (
	id       bigint PRIMARY KEY, -- number of the job that works on it
	playbook text NOT NULL,
	subject  text NOT NULL,
	event    bigint NOT NULL, -- offset of the event that began it; 0 if none did
	state    bigint NOT NULL, -- 0 running, 1 waiting, 2 done, 3 failed, 4 recovered, 5 canceled
	diverted bigint NOT NULL, -- the steps after a recovery are run
	started  bigint NOT NULL,
	ended    bigint NOT NULL,
	wake     bigint NOT NULL, -- until when it waits
	error    text NOT NULL
);
CREATE INDEX runs_open ON runs (subject) WHERE state < 2;
CREATE INDEX runs_ended ON runs (ended) WHERE state >= 2;

-- The steps of a run that were begun.
CREATE TABLE run_steps (
	run      bigint NOT NULL,
	step     text NOT NULL,
	state    bigint NOT NULL, -- 1 waiting, 2 done, 3 failed
	attempts bigint NOT NULL, -- that failed; of a probe, questions
	started  bigint NOT NULL,
	ended    bigint NOT NULL,
	wake     bigint NOT NULL,
	holds    bigint NOT NULL, -- of a condition: 1 if it holds
	output   text NOT NULL,
	error    text NOT NULL,
	PRIMARY KEY (run, step)
);

-- +goose Down
DROP TABLE run_steps;
DROP TABLE runs;
