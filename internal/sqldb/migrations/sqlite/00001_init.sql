-- +goose Up

-- One row: what this database is, who writes to it, and how far.
CREATE TABLE meta (
	id            INTEGER PRIMARY KEY,
	store_id      TEXT NOT NULL,
	fence         INTEGER NOT NULL, -- the number of the writer; who has another has to stop
	last_offset   INTEGER NOT NULL, -- of the latest event
	oldest        INTEGER NOT NULL, -- offset of the oldest event that is kept
	checkpoint    INTEGER NOT NULL, -- number of the latest checkpoint
	checkpoint_at INTEGER NOT NULL  -- Unix time in ns, 0 if there was none
);

-- Names that come up again and again: of sources, groups and rules.
CREATE TABLE names (
	id   INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE
);

CREATE TABLE devices (
	num INTEGER PRIMARY KEY,
	id  TEXT NOT NULL UNIQUE
);

-- What changes of a device, apart from its id so that a change writes little. Times of the wall clock are Unix time in ns; heard and
-- until_at are listening time of the source, in ns.
CREATE TABLE device_states (
	num       INTEGER PRIMARY KEY,
	state     INTEGER NOT NULL, -- 0 never_seen, 1 online, 2 late, 3 sleeping, 4 offline
	reason    INTEGER NOT NULL, -- 0 none, 1 silence, 2 bye, 3 closed, 4 protocol
	source    INTEGER NOT NULL, -- a name; 0 if it was never heard
	heard     INTEGER NOT NULL, -- as of its latest event; what was heard since is in pages
	until_at  INTEGER NOT NULL,
	since     INTEGER NOT NULL,
	seq       INTEGER NOT NULL,
	epoch     INTEGER NOT NULL,
	flags     INTEGER NOT NULL, -- 1 flapping, 2 maintenance
	head      INTEGER NOT NULL, -- offset of its latest event
	announced TEXT NOT NULL,
	own       TEXT NOT NULL,
	changes   BLOB NOT NULL
);

-- Where the events of forgotten devices are found.
CREATE TABLE forgotten (
	id   TEXT PRIMARY KEY,
	head INTEGER NOT NULL
) WITHOUT ROWID;

-- Offsets have no gaps. prev is the offset of the same device's event before this one, 0 if it is the first.
CREATE TABLE events (
	pos           INTEGER PRIMARY KEY,
	prev          INTEGER NOT NULL,
	at            INTEGER NOT NULL,
	type          INTEGER NOT NULL, -- see event_list
	reason        INTEGER NOT NULL,
	seq           INTEGER NOT NULL,
	epoch         INTEGER NOT NULL,
	source        INTEGER NOT NULL,
	grp           INTEGER NOT NULL,
	policy        INTEGER NOT NULL,
	last_seen     INTEGER NOT NULL,
	deadline      INTEGER NOT NULL,
	silence       INTEGER NOT NULL,
	timeout       INTEGER NOT NULL,
	flags         INTEGER NOT NULL, -- 1 flapping, 2 outage, 4 maintenance
	subject       TEXT NOT NULL,
	message       TEXT NOT NULL,
	deaf          INTEGER, -- this and what follows: of sources and groups only
	members       INTEGER,
	silent        INTEGER,
	silent_before INTEGER
);

CREATE TABLE sources (
	name       TEXT PRIMARY KEY,
	seq        INTEGER NOT NULL, -- of its latest event
	listened   INTEGER NOT NULL, -- what its clock read
	at         INTEGER NOT NULL, -- when it did; 0 if it never listened
	deaf       TEXT NOT NULL DEFAULT '',
	deaf_total INTEGER NOT NULL
);

CREATE TABLE outages (
	name          TEXT PRIMARY KEY, -- of the group
	seq           INTEGER NOT NULL,
	outage        INTEGER NOT NULL,
	silent_before INTEGER NOT NULL
);

-- The latest heartbeats: a page is of 4,096 device numbers, in two versions of which the one with the greater number counts.
CREATE TABLE pages (
	page   INTEGER NOT NULL,
	slot   INTEGER NOT NULL,
	number INTEGER NOT NULL,
	data   BLOB NOT NULL,
	PRIMARY KEY (page, slot)
);

CREATE TABLE tokens (
	id      TEXT PRIMARY KEY,
	name    TEXT NOT NULL,
	role    TEXT NOT NULL,
	hash    TEXT NOT NULL UNIQUE,
	created INTEGER NOT NULL
);

-- For people: nothing of the program reads these.
CREATE VIEW device_list AS SELECT
	d.num, d.id AS id,
	CASE s.state WHEN 0 THEN 'never_seen' WHEN 1 THEN 'online' WHEN 2 THEN 'late' WHEN 3 THEN 'sleeping' WHEN 4 THEN 'offline' ELSE '' END AS state,
	CASE s.reason WHEN 1 THEN 'silence' WHEN 2 THEN 'bye' WHEN 3 THEN 'closed' WHEN 4 THEN 'protocol' ELSE '' END AS reason,
	n.name AS source,
	CASE WHEN s.since <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', s.since / 1e9, 'unixepoch') END AS since, s.seq, s.epoch, s.flags % 2 AS flapping, s.flags / 2 % 2 AS maintenance
FROM devices d JOIN device_states s ON s.num = d.num LEFT JOIN names n ON n.id = s.source;

CREATE VIEW event_list AS SELECT
	e.pos, CASE WHEN e.at <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', e.at / 1e9, 'unixepoch') END AS at,
	CASE e.type WHEN 1 THEN 'device.online' WHEN 2 THEN 'device.late' WHEN 3 THEN 'device.offline' WHEN 4 THEN 'device.sleeping' WHEN 5 THEN 'device.failed' WHEN 6 THEN 'device.session_replaced' WHEN 7 THEN 'device.flapping.started' WHEN 8 THEN 'device.flapping.stopped' WHEN 9 THEN 'device.changed' WHEN 10 THEN 'device.maintenance.started' WHEN 11 THEN 'device.maintenance.stopped' WHEN 12 THEN 'device.forgotten' WHEN 13 THEN 'source.deaf' WHEN 14 THEN 'source.heard' WHEN 15 THEN 'group.outage.started' WHEN 16 THEN 'group.outage.ended' ELSE '' END AS type,
	e.subject AS subject, e.seq, e.epoch,
	CASE e.reason WHEN 1 THEN 'silence' WHEN 2 THEN 'bye' WHEN 3 THEN 'closed' WHEN 4 THEN 'protocol' ELSE '' END AS reason,
	s.name AS source, g.name AS grp, p.name AS policy,
	CASE WHEN e.last_seen <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', e.last_seen / 1e9, 'unixepoch') END AS last_seen,
	CASE WHEN e.deadline <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', e.deadline / 1e9, 'unixepoch') END AS deadline,
	e.silence / 1e9 AS silence_seconds, e.timeout / 1e9 AS timeout_seconds, e.message,
	e.flags % 2 AS flapping, e.flags / 2 % 2 AS outage, e.flags / 4 % 2 AS maintenance,
	e.deaf / 1e9 AS deaf_seconds, e.members, e.silent
FROM events e LEFT JOIN names s ON s.id = e.source LEFT JOIN names g ON g.id = e.grp LEFT JOIN names p ON p.id = e.policy;

-- +goose Down
DROP VIEW event_list;
DROP VIEW device_list;
DROP TABLE tokens;
DROP TABLE pages;
DROP TABLE outages;
DROP TABLE sources;
DROP TABLE events;
DROP TABLE forgotten;
DROP TABLE device_states;
DROP TABLE devices;
DROP TABLE names;
DROP TABLE meta;
