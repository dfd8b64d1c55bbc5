-- +goose Up

-- Jobs that applications have written, in transactions of their own. Holter makes a job of each row and deletes it; a row that cannot be one stays,
-- with its error. NULL and '' both mean that a column is left out.
CREATE TABLE IF NOT EXISTS holter_outbox (
	id              BIGINT AUTO_INCREMENT PRIMARY KEY,
	name            VARCHAR(255), -- of the job, by which it finds its job route
	queue           VARCHAR(255), -- default: that of the job route, else of the endpoint, else default
	endpoint        VARCHAR(255), -- either this or url, or a job route has one
	url             TEXT,
	body            MEDIUMTEXT, -- JSON
	ordering_key    VARCHAR(255),
	idempotency_key VARCHAR(255),
	run_at          TIMESTAMP(6) NULL DEFAULT NULL,
	deadline        TIMESTAMP(6) NULL DEFAULT NULL,
	created         TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	error           VARCHAR(500), -- why it is no job; NULL: nobody has looked at it
	KEY holter_outbox_new (error, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS holter_outbox;
