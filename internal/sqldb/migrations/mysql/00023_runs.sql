-- +goose Up

-- Runs of jobs: since when one is under way, in steady Unix time in ns, 0 if none is; and how one ended: its exit status, and how
-- long it took in ns.
ALTER TABLE device_states ADD COLUMN started BIGINT NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN exit_status SMALLINT;
ALTER TABLE events ADD COLUMN duration BIGINT;
-- A policy with quiet windows and a schedule may be long.
ALTER TABLE device_states MODIFY own VARCHAR(4000) NOT NULL;
-- The types of their events, and reasons that the views did not know.
CREATE OR REPLACE VIEW device_list AS SELECT
	d.num, CONVERT(d.id USING utf8mb4) AS id,
	CASE s.state WHEN 0 THEN 'never_seen' WHEN 1 THEN 'online' WHEN 2 THEN 'late' WHEN 3 THEN 'sleeping' WHEN 4 THEN 'offline' ELSE '' END AS state,
	CASE s.reason WHEN 1 THEN 'silence' WHEN 2 THEN 'bye' WHEN 3 THEN 'closed' WHEN 4 THEN 'protocol' WHEN 5 THEN 'will' WHEN 6 THEN 'admin' WHEN 7 THEN 'reported' ELSE '' END AS reason,
	CONVERT(n.name USING utf8mb4) AS source,
	CASE WHEN s.since <> 0 THEN FROM_UNIXTIME(s.since / 1e9) END AS since, s.seq, s.epoch, s.flags % 2 AS flapping, s.flags DIV 2 % 2 AS maintenance
FROM devices d JOIN device_states s ON s.num = d.num LEFT JOIN names n ON n.id = s.source;
CREATE OR REPLACE VIEW event_list AS SELECT
	e.pos, CASE WHEN e.at <> 0 THEN FROM_UNIXTIME(e.at / 1e9) END AS at,
	CASE e.type WHEN 1 THEN 'device.online' WHEN 2 THEN 'device.late' WHEN 3 THEN 'device.offline' WHEN 4 THEN 'device.sleeping' WHEN 5 THEN 'device.failed' WHEN 6 THEN 'device.session_replaced' WHEN 7 THEN 'device.flapping.started' WHEN 8 THEN 'device.flapping.stopped' WHEN 9 THEN 'device.changed' WHEN 10 THEN 'device.maintenance.started' WHEN 11 THEN 'device.maintenance.stopped' WHEN 12 THEN 'device.forgotten' WHEN 13 THEN 'source.deaf' WHEN 14 THEN 'source.heard' WHEN 15 THEN 'group.outage.started' WHEN 16 THEN 'group.outage.ended' WHEN 17 THEN 'device.run.started' WHEN 18 THEN 'device.run.finished' ELSE '' END AS type,
	CONVERT(e.subject USING utf8mb4) AS subject, e.seq, e.epoch,
	CASE e.reason WHEN 1 THEN 'silence' WHEN 2 THEN 'bye' WHEN 3 THEN 'closed' WHEN 4 THEN 'protocol' WHEN 5 THEN 'will' WHEN 6 THEN 'admin' WHEN 7 THEN 'reported' ELSE '' END AS reason,
	CONVERT(s.name USING utf8mb4) AS source, CONVERT(g.name USING utf8mb4) AS grp, CONVERT(p.name USING utf8mb4) AS policy,
	CASE WHEN e.last_seen <> 0 THEN FROM_UNIXTIME(e.last_seen / 1e9) END AS last_seen,
	CASE WHEN e.deadline <> 0 THEN FROM_UNIXTIME(e.deadline / 1e9) END AS deadline,
	e.silence / 1e9 AS silence_seconds, e.timeout / 1e9 AS timeout_seconds, e.message,
	e.flags % 2 AS flapping, e.flags DIV 2 % 2 AS outage, e.flags DIV 4 % 2 AS maintenance,
	e.deaf / 1e9 AS deaf_seconds, e.members, e.silent
FROM events e LEFT JOIN names s ON s.id = e.source LEFT JOIN names g ON g.id = e.grp LEFT JOIN names p ON p.id = e.policy;

-- +goose Down
ALTER TABLE events DROP COLUMN duration;
ALTER TABLE events DROP COLUMN exit_status;
ALTER TABLE device_states DROP COLUMN started;
