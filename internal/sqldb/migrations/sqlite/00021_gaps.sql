-- +goose Up

-- Silences of devices that were longer than the limit from which they are recorded. A page has those that ended in one hour, of 4,096
-- device numbers; one with a negative number has those of one checkpoint, of all devices, which are sorted into pages later.
CREATE TABLE gaps (
	page INTEGER NOT NULL,
	hour INTEGER NOT NULL, -- Unix time of its beginning, in hours
	size INTEGER NOT NULL, -- of data, in bytes
	head INTEGER NOT NULL, -- offset of the latest event before they were taken, or sorted
	data BLOB NOT NULL,
	PRIMARY KEY (page, hour)
);
CREATE INDEX gaps_hour ON gaps (hour, size, head);

-- Device numbers that were free again, and the offset of the event since which they were: what gaps has from before is of another device.
CREATE TABLE freed (
	num  INTEGER PRIMARY KEY,
	head INTEGER NOT NULL
);

-- What put verdicts off on devices of a source: mostly times in which it was deaf. See liveness.Break.
CREATE TABLE breaks (
	ended    INTEGER NOT NULL, -- Unix time, in ns
	source   text NOT NULL,
	kind     INTEGER NOT NULL, -- 0 stall, 1 cut, 2 blank, 3 spare
	listened INTEGER NOT NULL,
	clock    INTEGER NOT NULL,
	length   INTEGER NOT NULL,
	PRIMARY KEY (ended, source, kind, listened)
);

-- What is learned of devices: a page has 4,096 device numbers.
CREATE TABLE habits (
	page INTEGER PRIMARY KEY,
	data BLOB NOT NULL
);

-- What is learned of groups; the devices of no group have the empty name.
CREATE TABLE shapes (
	grp  text PRIMARY KEY,
	data BLOB NOT NULL
);

-- The deadline that was learned and is in force, in ns; 0 for none.
ALTER TABLE device_states ADD COLUMN learned INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE device_states DROP COLUMN learned;
DROP TABLE shapes;
DROP TABLE habits;
DROP TABLE breaks;
DROP TABLE freed;
DROP TABLE gaps;
