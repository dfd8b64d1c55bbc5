package server

import (
	"time"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/internal/metrics"
	"github.com/holter-iot/holter/internal/net/kernelfs"
	"github.com/holter-iot/holter/internal/store"
)

// collect reports the metrics of all parts that the server has.
func (s *server) collect(m metrics.Sample) {
	m.Count("forgotten_devices_total", "Devices that were forgotten because they were silent for too long.", s.forgotten.Load())
	memoryMetrics(m)
	s.storeMetrics(m)
	s.deliveryMetrics(m)
	s.scheduleMetrics(m)
	s.playbookMetrics(m)
	if s.gateway != nil {
		s.gatewayMetrics(m)
	}
	if j := s.link.Load(); j != nil {
		judgeMetrics(m, j.Views())
	}
	s.brokerMetrics(m)
	s.mqttMetrics(m)
	if s.reporter != nil {
		s.reportMetrics(m)
	}
}

// memoryMetrics reports what the process may use; process_resident_memory_bytes is what it does use.
func memoryMetrics(m metrics.Sample) {
	if limit, _, _ := kernelfs.Root("/").Memory(); limit > 0 {
		m.Add("memory_limit_bytes", "Memory that the process may use: that of its control group, or of the machine.", float64(limit))
	}
}

func (s *server) storeMetrics(m metrics.Sample) {
	st := s.store.Stats()
	m.Add("events_bytes", "Bytes that the events take in the database, by an estimate on the safe side.", float64(st.EventBytes))
	m.Add("gaps_bytes", "Bytes that the silences take which are kept of devices.", float64(st.Gaps.Bytes))
	m.Count("gaps_dropped_total", "Silences of devices that were not kept, since there was no room for them while the database failed.", st.Gaps.Dropped)
	m.Count("gaps_damaged_rows_total", "Rows of silences in the database that could not be read, and were left out.", st.Gaps.Damaged)
	m = m.Sub("store_")
	m.Add("events_total", "Events stored by this process.", float64(st.Appended))
	m.Add("failures_total", "Attempts to use the database that failed.", float64(st.Failures))
	m.Add("failing_seconds", "For how long the database has failed; 0 if it works.", ago(st.Failing))
	m.Add("harmed_seconds", "For how long the database file, or the data directory, has been gone, replaced or overwritten; 0 if it is what it was.", ago(st.Harmed))
	m.Count("lost_commits_total", "How often the database was found to have lost events that it had committed, as after a failover to a replica that was behind.", st.Lost.Times)
	m.Count("lost_events_total", "Events that it had lost.", st.Lost.Events)
	m.Count("recovered_events_total", "Of them, those that were appended again from memory.", st.Lost.Again)
	m.Add("set_aside_devices", "Rows of devices that could not be read and are in the table set_aside.", float64(st.SetAside))
	m.Add("pruned_events_total", "Events removed because of their number or age.", float64(st.Pruned))
	m.Add("devices", "Devices that have a row.", float64(st.Devices))
	m.Add("bytes", "Size of the database; 0 if it is not known.", float64(st.Bytes))
	m.Add("checkpoints_total", "Checkpoints written.", float64(st.Checkpoint.Written))
	m.Add("checkpoint_bytes_total", "Bytes of heartbeats that checkpoints wrote.", float64(st.Checkpoint.Total))
	m.Add("checkpoint_age_seconds", "Time since the latest checkpoint; 0 if there was none.", ago(st.Checkpoint.At))
	m.Add("checkpoint_seconds", "How long the latest checkpoint took.", st.Checkpoint.Duration.Seconds())
	m.Histogram("commit_seconds", "How long it took to store a batch of events.", store.LatencyBounds(), st.Latency, st.LatencySum.Seconds())
}

// ago returns the seconds since an instant, 0 if it is none.
func ago(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return time.Since(at).Seconds()
}

func (s *server) deliveryMetrics(m metrics.Sample) {
	m = m.Sub("delivery_")
	st := s.delivery.Stats()
	for _, q := range st.Queues {
		m := m.Sub("", "queue", q.Name)
		m.Add("jobs", "Jobs that are not done.", float64(q.Jobs))
		m.Add("running", "Deliveries that are going on.", float64(q.Running))
		if q.OldestKnown {
			const help = "Age of the oldest job that is not done, as found some seconds ago; 0 if there is none. Until a time of their own (run_at, a playbook's wait) jobs have no age."
			m.Add("oldest_job_age_seconds", help, q.Age(time.Now()).Seconds())
		}
		const help = "Ends of deliveries: delivered, retried (another attempt follows) or dead (a dead letter)."
		m.Count("outcomes_total", help, q.Delivered, "outcome", "delivered")
		m.Count("outcomes_total", help, q.Retried, "outcome", "retried")
		m.Count("outcomes_total", help, q.Dead, "outcome", "dead")
		m.Histogram("duration_seconds", "How long deliveries took, whatever came of them; one may have several messages.",
			q.Durations.Bounds, q.Durations.Counts, q.Durations.Sum.Seconds())
		m.Histogram("latency_seconds", "How old jobs were when they were delivered: since their event, or since they were enqueued or were to run first.",
			q.Latencies.Bounds, q.Latencies.Counts, q.Latencies.Sum.Seconds())
	}
	for _, p := range st.Endpoints {
		m := m.Sub("", "endpoint", p.Name)
		m.Flag("endpoint_up", "1 if the endpoint is delivered to; 0 if it failed again and again, is disabled or broken.", p.State == "closed")
		const help = "Messages by whether the endpoint took them, once for each attempt."
		m.Count("messages_total", help, p.Delivered, "taken", "true")
		m.Count("messages_total", help, p.Failed, "taken", "false")
	}
	const help = "Events that created no job, because their queue was full or their endpoint is disabled."
	m.Count("dropped_total", help, st.Dropped.Full, "reason", "full")
	m.Count("dropped_total", help, st.Dropped.Disabled, "reason", "disabled")
	const rows = "Rows of the table holter_outbox that became jobs, or were refused and stay there with their errors."
	m.Count("outbox_rows_total", rows, st.Outbox.Taken, "outcome", "job")
	m.Count("outbox_rows_total", rows, st.Outbox.Refused, "outcome", "refused")
}

func (s *server) scheduleMetrics(m metrics.Sample) {
	m = m.Sub("schedule_")
	st := s.cron.Stats()
	m.Add("running", "Runs of schedules that are going on, maintenance windows not counted.", float64(st.Running))
	m.Add("windows_open", "Maintenance windows that are open.", float64(st.Windows))
	for _, state := range []cron.State{cron.Done, cron.Failed, cron.Lost, cron.Skipped, cron.Idle} {
		m.Count("runs_total", "Runs by result: done, failed, lost, idle (to be started again); skipped counts instants.", st.Ended[state], "state", string(state))
	}
	m.Histogram("lateness_seconds", "How long after their instants runs started.", cron.LateBounds(), st.Late, st.LateSum.Seconds())
}

func (s *server) playbookMetrics(m metrics.Sample) {
	m = m.Sub("playbook_")
	ended, running := s.books.Stats()
	for e, n := range ended {
		m.Count("runs_total", "Runs of playbooks by how they ended: done, failed or recovered.", n, "playbook", e.Playbook, "state", e.State.String())
	}
	m.Add("running", "Runs that are in progress; those that wait are jobs of the queue playbooks.", float64(running))
}

func (s *server) reportMetrics(m metrics.Sample) {
	m = m.Sub("report_")
	st := s.reporter.Stats()
	m.Count("published_total", "States, and discoveries, that the broker acknowledged.", st.Published)
	m.Count("cleared_total", "States, and discoveries, that were removed because their device is gone.", st.Cleared)
	m.Count("failed_total", "Messages that the broker did not acknowledge; they are made up for.", st.Failed)
	m.Count("reconciles_total", "Comparisons of all states with what the broker keeps.", st.Reconciles)
}

func (f *front) gatewayMetrics(m metrics.Sample) {
	m = m.Sub("gateway_")
	st := f.gateway.Stats()
	m.Add("connections", "Connections that are open.", float64(st.Connections))
	m.Add("connections_limit", "The most connections that there may be (gateway.max_connections).", float64(st.MaxConnections))
	m.Add("duplicate_ids", "Device ids that two connections claim at the moment, so that one of them is refused.", float64(st.DuplicateIDs))
	m.Add("datagram_devices", "Devices that speak in datagrams.", float64(st.Packets.Devices))
	for o, n := range st.Odd {
		m.Count("odd_total", "What was unusual and tolerated in messages of devices.", n, "protocol", o.Protocol, "what", o.What)
	}
	for _, e := range st.Listeners {
		m.Add("listener_devices", "Known devices that came in first at a port with max_devices; 0 at other ports.", float64(e.Devices), "listener", e.Address)
		m.Count("refused_devices_total", "Greetings of new devices refused because there were as many as there may be.", e.Refused, "listener", e.Address)
	}
	m.Add("newcomers", "Connections that have not said hello.", float64(st.Newcomers))
	m.Count("evicted_total", "Connections closed because too many had not said hello.", st.Evicted)
	m.Count("slowed_total", "Times that a connection began to send too much, so that it was read more slowly.", st.Slowed)
	m.Count("floods_total", "Connections that were closed because they had sent too much for a minute.", st.Floods)
	m.Count("revoked_total", "Connections closed because the device's token or certificate was revoked.", st.Revoked)
	m.Count("accepted_total", "Connections accepted.", st.Accepted)
	m.Count("accept_errors_total", "Accepts that failed.", st.AcceptErrors+st.EnrollErrors)
	m.Count("refused_full_total", "Connections refused because there were too many.", st.RefusedFull)
	m.Count("refused_address_total", "Connections refused because their address had too many.", st.RefusedAddress)
	m.Count("unauthorized_total", "Greetings with a wrong or missing token.", st.Unauthorized)
	m.Count("handshake_timeouts_total", "Connections closed because they did not greet in time.", st.HandshakeTimeouts)
	m.Count("idle_timeouts_total", "Connections closed because they were idle.", st.IdleTimeouts)
	m.Count("slow_readers_total", "Connections closed because they left too much unread.", st.SlowReaders)
	m.Count("bad_proxy_headers_total", "Connections from a network of proxies without a good PROXY header.", st.BadProxyHeader)
	m.Count("tls_handshakes_total", "TLS handshakes that were done.", st.Handshakes)
	m.Count("tls_resumed_total", "TLS handshakes that resumed a session.", st.Resumed)
	m.Count("tls_handshake_errors_total", "TLS handshakes that failed.", st.HandshakeErrors)
	m.Count("mistakes_total", "Error lines sent.", st.Mistakes)
	m.Count("broken_total", "Connections closed because they broke the protocol.", st.Broken)
	m.Count("closed_total", "Connections closed after a verdict, a takeover or a deadline, or to drain.", st.Closed)
	m.Count("panics_total", "Connections closed because they made the gateway panic.", st.Panics)
	m.Count("messages_total", "Messages of devices.", st.Messages)
	m.Count("throttled_total", "Greetings not looked at because of wrong tokens from the same address, of devices whose token may be guessed.", st.Throttled)
	m.Count("duplicates_total", "Connections refused because two of them say that they are the same device.", st.Duplicates)
	m.Count("sent_total", "Messages that were written to devices for those who sent them.", st.Sent)
	m.Count("probes_total", "Devices that were asked for a sign of life.", st.Probes)
	m.Count("probes_left_out_total", "Devices that were not asked: there were too many, or they do not read.", st.ProbesLeftOut)
	m.Count("datagrams_total", "Datagrams that were received.", st.Packets.Received)
	m.Count("datagrams_garbage_total", "Datagrams that named no device.", st.Packets.Garbage)
	m.Count("datagrams_withheld_total", "Answers not given to senders who proved nothing: longer than the datagram, or too many errors.", st.Packets.Withheld)
	m.Count("datagrams_unsent_total", "Datagrams that the kernel did not take.", st.Packets.Unsent)
	m.Count("datagram_devices_evicted_total", "Devices over UDP whose latest datagram showed no token, and that made room for others.", st.Packets.Evicted)
	m.Count("datagrams_limited_total", "Datagrams dropped, in whole or in part, because their device sent more than max_messages or max_bytes.", st.Packets.Limited)
	m.Count("datagram_messages_repeated_total", "Messages over UDP that were sent again, because the device had not acknowledged them.", st.Packets.Repeated)
	m.Count("datagram_messages_acknowledged_total", "Messages over UDP that the device acknowledged.", st.Packets.Acknowledged)
	m.Count("datagram_messages_unacknowledged_total", "Messages over UDP that the device did not acknowledge in time.", st.Packets.Unacknowledged)
	m.Count("datagrams_dropped_total", "Datagrams that the kernel dropped because a socket was full.", st.Packets.Dropped)
}

// mqttMetrics reports the bridges.
func (s *server) mqttMetrics(m metrics.Sample) {
	for _, b := range s.bridges {
		v := b.View()
		m := m.Sub("mqtt_", "bridge", v.Name)
		rejections(m, v.Rejected)
		m.Add("messages_total", "Messages that came from the broker.", float64(v.Messages))
		m.Add("retained_total", "Of them, those that the broker had kept: they are no heartbeats.", float64(v.Retained))
		m.Add("beats_total", "Heartbeats that followed from messages.", float64(v.Beats))
		m.Add("dropped_total", "Messages for which there was no room in the queue.", float64(v.Dropped))
		m.Add("queue", "Messages that wait.", float64(v.Queue))
		m.Add("queue_limit", "Messages that may wait.", float64(v.QueueMax))
		m.Add("left_out", "Topics that messages name and that the bridge does not hear: the broker refuses them, or closes the connection.", float64(len(v.LeftOut)))
		m.Flag("connected", "Whether the broker is connected.", v.Connected)
		m.Flag("listening", "Whether the listening clock moves.", v.Listening)
		m.Flag("watermark_message", "Whether the clock follows messages to itself: 1, or the broker's answers: 0.", v.Watermark == "message")
	}
}

func rejections(m metrics.Sample, counts map[string]uint64) {
	for reason, n := range counts {
		m.Count("rejected_total", "Messages, or clients, that were not taken.", n, "reason", reason)
	}
}
