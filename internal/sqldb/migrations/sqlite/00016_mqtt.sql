-- +goose Up

-- Sessions and retained messages of the MQTT broker. What a record is about, its key and its value are for package mqtt to know.
CREATE TABLE mqtt_records (
	kind       INTEGER NOT NULL, -- 1 session, 2 subscription, 3 message in queues, 4 its place in one, 5 received with QoS 2, 6 retained
	record_key BLOB NOT NULL,
	value      BLOB NOT NULL,
	PRIMARY KEY (kind, record_key)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE mqtt_records;
