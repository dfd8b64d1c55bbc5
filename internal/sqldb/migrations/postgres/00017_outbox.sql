-- +goose Up

-- Jobs that applications have written, in transactions of their own. Holter makes a job of each row and deletes it; a row that cannot be one stays,
-- with its error. NULL and '' both mean that a column is left out.
CREATE TABLE holter_outbox (
	id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name            text, -- of the job, by which it finds its job route
	queue           text, -- default: that of the job route, else of the endpoint, else default
	endpoint        text, -- either this or url, or a job route has one
	url             text,
	body            text, -- JSON
	ordering_key    text,
	idempotency_key text,
	run_at          timestamptz CHECK (isfinite(run_at)),
	deadline        timestamptz CHECK (isfinite(deadline)),
	created         timestamptz NOT NULL DEFAULT now(),
	error           text -- why it is no job; NULL: nobody has looked at it
);
CREATE INDEX holter_outbox_new ON holter_outbox (id) WHERE error IS NULL;

-- +goose StatementBegin
CREATE FUNCTION holter_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_catalog.pg_notify('holter_outbox', '');
	RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER holter_outbox_notify AFTER INSERT ON holter_outbox FOR EACH STATEMENT EXECUTE PROCEDURE holter_outbox_notify();

-- +goose Down
DROP TABLE holter_outbox;
DROP FUNCTION holter_outbox_notify();
