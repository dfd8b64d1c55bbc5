-- +goose Up

-- Silences of devices that were longer than the limit from which they are recorded. A page has those that ended in one hour, of 4,096
-- device numbers; one with a negative number has those of one checkpoint, of all devices, which are sorted into pages later.
CREATE TABLE gaps (
	page bigint NOT NULL,
	hour bigint NOT NULL, -- Unix time of its beginning, in hours
	size bigint NOT NULL, -- of data, in bytes
	head bigint NOT NULL, -- offset of the latest event before they were taken, or sorted
	data bytea NOT NULL,
	PRIMARY KEY (page, hour)
);
CREATE INDEX gaps_hour ON gaps (hour, size, head);

-- Device numbers that were free again, and the offset of the event since which they were: what gaps has from before is of another device.
CREATE TABLE freed (
	num  bigint PRIMARY KEY,
	head bigint NOT NULL
);

-- What put verdicts off on devices of a source: mostly times in which it was deaf. See liveness.Break.
CREATE TABLE breaks (
	ended    bigint NOT NULL, -- Unix time, in ns
	source   text NOT NULL,
	kind     smallint NOT NULL, -- 0 stall, 1 cut, 2 blank, 3 spare
	listened bigint NOT NULL,
	clock    bigint NOT NULL,
	length   bigint NOT NULL,
	PRIMARY KEY (ended, source, kind, listened)
);

-- What is learned of devices: a page has 4,096 device numbers.
CREATE TABLE habits (
	page bigint PRIMARY KEY,
	data bytea NOT NULL
);

-- What is learned of groups; the devices of no group have the empty name.
CREATE TABLE shapes (
	grp  text PRIMARY KEY,
	data bytea NOT NULL
);

-- The deadline that was learned and is in force, in ns; 0 for none.
ALTER TABLE device_states ADD COLUMN learned bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE device_states DROP COLUMN learned;
DROP TABLE shapes;
DROP TABLE habits;
DROP TABLE breaks;
DROP TABLE freed;
DROP TABLE gaps;
