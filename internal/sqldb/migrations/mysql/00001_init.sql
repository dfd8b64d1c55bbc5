-- +goose NO TRANSACTION
-- +goose Up
-- A statement that defines something ends a transaction here, so each of them may be repeated.

-- One row: what this database is, who writes to it, and how far.
CREATE TABLE IF NOT EXISTS meta (
	id            INT PRIMARY KEY,
	store_id      VARCHAR(64) NOT NULL,
	fence         BIGINT NOT NULL, -- the number of the writer; who has another has to stop
	last_offset   BIGINT NOT NULL, -- of the latest event
	oldest        BIGINT NOT NULL, -- offset of the oldest event that is kept
	checkpoint    BIGINT NOT NULL, -- number of the latest checkpoint
	checkpoint_at BIGINT NOT NULL  -- Unix time in ns, 0 if there was none
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Names that come up again and again: of sources, groups and rules.
CREATE TABLE IF NOT EXISTS names (
	id   BIGINT PRIMARY KEY,
	name VARBINARY(255) NOT NULL UNIQUE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS devices (
	num BIGINT PRIMARY KEY,
	id  VARBINARY(128) NOT NULL UNIQUE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- What changes of a device, apart from its id so that a change writes little. Times of the wall clock are Unix time in ns; heard and
-- until_at are listening time of the source, in ns.
CREATE TABLE IF NOT EXISTS device_states (
	num       BIGINT PRIMARY KEY,
	state     SMALLINT NOT NULL, -- 0 never_seen, 1 online, 2 late, 3 sleeping, 4 offline
	reason    SMALLINT NOT NULL, -- 0 none, 1 silence, 2 bye, 3 closed, 4 protocol
	source    BIGINT NOT NULL, -- a name; 0 if it was never heard
	heard     BIGINT NOT NULL, -- as of its latest event; what was heard since is in pages
	until_at  BIGINT NOT NULL,
	since     BIGINT NOT NULL,
	seq       BIGINT NOT NULL,
	epoch     BIGINT NOT NULL,
	flags     SMALLINT NOT NULL, -- 1 flapping, 2 maintenance
	head      BIGINT NOT NULL, -- offset of its latest event
	announced VARCHAR(255) NOT NULL,
	own       VARCHAR(255) NOT NULL,
	changes   VARBINARY(1024) NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Where the events of forgotten devices are found.
CREATE TABLE IF NOT EXISTS forgotten (
	id   VARBINARY(128) PRIMARY KEY,
	head BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Offsets have no gaps. prev is the offset of the same device's event before this one, 0 if it is the first.
CREATE TABLE IF NOT EXISTS events (
	pos           BIGINT PRIMARY KEY,
	prev          BIGINT NOT NULL,
	at            BIGINT NOT NULL,
	type          SMALLINT NOT NULL, -- see event_list
	reason        SMALLINT NOT NULL,
	seq           BIGINT NOT NULL,
	epoch         BIGINT NOT NULL,
	source        BIGINT NOT NULL,
	grp           BIGINT NOT NULL,
	policy        BIGINT NOT NULL,
	last_seen     BIGINT NOT NULL,
	deadline      BIGINT NOT NULL,
	silence       BIGINT NOT NULL,
	timeout       BIGINT NOT NULL,
	flags         SMALLINT NOT NULL, -- 1 flapping, 2 outage, 4 maintenance
	subject       VARBINARY(128) NOT NULL,
	message       TEXT NOT NULL,
	deaf          BIGINT, -- this and what follows: of sources and groups only
	members       BIGINT,
	silent        BIGINT,
	silent_before BIGINT
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS sources (
	name       VARBINARY(255) PRIMARY KEY,
	seq        BIGINT NOT NULL, -- of its latest event
	listened   BIGINT NOT NULL, -- what its clock read
	at         BIGINT NOT NULL, -- when it did; 0 if it never listened
	deaf       MEDIUMTEXT NOT NULL,
	deaf_total BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS outages (
	name          VARBINARY(255) PRIMARY KEY, -- of the group
	seq           BIGINT NOT NULL,
	outage        SMALLINT NOT NULL,
	silent_before BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- The latest heartbeats: a page is of 4,096 device numbers, in two versions of which the one with the greater number counts.
CREATE TABLE IF NOT EXISTS pages (
	page   BIGINT NOT NULL,
	slot   SMALLINT NOT NULL,
	number BIGINT NOT NULL,
	data   MEDIUMBLOB NOT NULL,
	PRIMARY KEY (page, slot)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS tokens (
	id      VARCHAR(64) PRIMARY KEY,
	name    VARCHAR(255) NOT NULL,
	role    VARCHAR(64) NOT NULL,
	hash    VARCHAR(64) NOT NULL UNIQUE,
	created BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- For people: nothing of the program reads these.
CREATE OR REPLACE VIEW device_list AS SELECT
	d.num, CONVERT(d.id USING utf8mb4) AS id,
	CASE s.state WHEN 0 THEN 'never_seen' WHEN 1 THEN 'online' WHEN 2 THEN 'late' WHEN 3 THEN 'sleeping' WHEN 4 THEN 'offline' ELSE '' END AS state,
	CASE s.reason WHEN 1 THEN 'silence' WHEN 2 THEN 'bye' WHEN 3 THEN 'closed' WHEN 4 THEN 'protocol' ELSE '' END AS reason,
	CONVERT(n.name USING utf8mb4) AS source,
	CASE WHEN s.since <> 0 THEN FROM_UNIXTIME(s.since / 1e9) END AS since, s.seq, s.epoch, s.flags % 2 AS flapping, s.flags DIV 2 % 2 AS maintenance
FROM devices d JOIN device_states s ON s.num = d.num LEFT JOIN names n ON n.id = s.source;

CREATE OR REPLACE VIEW event_list AS SELECT
	e.pos, CASE WHEN e.at <> 0 THEN FROM_UNIXTIME(e.at / 1e9) END AS at,
	CASE e.type WHEN 1 THEN 'device.online' WHEN 2 THEN 'device.late' WHEN 3 THEN 'device.offline' WHEN 4 THEN 'device.sleeping' WHEN 5 THEN 'device.failed' WHEN 6 THEN 'device.session_replaced' WHEN 7 THEN 'device.flapping.started' WHEN 8 THEN 'device.flapping.stopped' WHEN 9 THEN 'device.changed' WHEN 10 THEN 'device.maintenance.started' WHEN 11 THEN 'device.maintenance.stopped' WHEN 12 THEN 'device.forgotten' WHEN 13 THEN 'source.deaf' WHEN 14 THEN 'source.heard' WHEN 15 THEN 'group.outage.started' WHEN 16 THEN 'group.outage.ended' ELSE '' END AS type,
	CONVERT(e.subject USING utf8mb4) AS subject, e.seq, e.epoch,
	CASE e.reason WHEN 1 THEN 'silence' WHEN 2 THEN 'bye' WHEN 3 THEN 'closed' WHEN 4 THEN 'protocol' ELSE '' END AS reason,
	CONVERT(s.name USING utf8mb4) AS source, CONVERT(g.name USING utf8mb4) AS grp, CONVERT(p.name USING utf8mb4) AS policy,
	CASE WHEN e.last_seen <> 0 THEN FROM_UNIXTIME(e.last_seen / 1e9) END AS last_seen,
	CASE WHEN e.deadline <> 0 THEN FROM_UNIXTIME(e.deadline / 1e9) END AS deadline,
	e.silence / 1e9 AS silence_seconds, e.timeout / 1e9 AS timeout_seconds, e.message,
	e.flags % 2 AS flapping, e.flags DIV 2 % 2 AS outage, e.flags DIV 4 % 2 AS maintenance,
	e.deaf / 1e9 AS deaf_seconds, e.members, e.silent
FROM events e LEFT JOIN names s ON s.id = e.source LEFT JOIN names g ON g.id = e.grp LEFT JOIN names p ON p.id = e.policy;

-- +goose Down
DROP VIEW IF EXISTS event_list;
DROP VIEW IF EXISTS device_list;
DROP TABLE IF EXISTS tokens;
DROP TABLE IF EXISTS pages;
DROP TABLE IF EXISTS outages;
DROP TABLE IF EXISTS sources;
DROP TABLE IF EXISTS events;
DROP TABLE IF EXISTS forgotten;
DROP TABLE IF EXISTS device_states;
DROP TABLE IF EXISTS devices;
DROP TABLE IF EXISTS names;
DROP TABLE IF EXISTS meta;
