-- +goose Up

-- Sessions and retained messages of the MQTT broker. What a record is about, its key and its value are for package mqtt to know.
CREATE TABLE IF NOT EXISTS mqtt_records (
	kind       TINYINT UNSIGNED NOT NULL, -- 1 session, 2 subscription, 3 message in queues, 4 its place in one, 5 received with QoS 2, 6 retained
	record_key VARBINARY(1032) NOT NULL,
	value      LONGBLOB NOT NULL,
	PRIMARY KEY (kind, record_key)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE IF EXISTS mqtt_records;
