package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// The numbers below are in databases. Their meanings must never change.

func typeCode(t liveness.Type) int64 {
	switch t {
	case liveness.DeviceOnline:
		return 1
	case liveness.DeviceLate:
		return 2
	case liveness.DeviceOffline:
		return 3
	case liveness.DeviceSleeping:
		return 4
	case liveness.DeviceFailed:
		return 5
	case liveness.DeviceSessionReplaced:
		return 6
	case liveness.DeviceFlappingStarted:
		return 7
	case liveness.DeviceFlappingStopped:
		return 8
	case liveness.DeviceChanged:
		return 9
	case liveness.DeviceMaintenanceStarted:
		return 10
	case liveness.DeviceMaintenanceStopped:
		return 11
	case liveness.DeviceForgotten:
		return 12
	case liveness.DeviceRunStarted:
		return 17
	case liveness.DeviceRunFinished:
		return 18
	case liveness.SourceDeaf:
		return 13
	case liveness.SourceHeard:
		return 14
	case liveness.GroupOutageStarted:
		return 15
	case liveness.GroupOutageEnded:
		return 16
	}
	return 0
}

func stateCode(s liveness.State) int64 {
	switch s {
	case liveness.NeverSeen, liveness.Unknown, liveness.Suspect, liveness.Pending: // the last three are never in a record
		return 0
	case liveness.Online:
		return 1
	case liveness.Late:
		return 2
	case liveness.Sleeping:
		return 3
	case liveness.Offline:
		return 4
	}
	return 0
}

func reasonCode(r liveness.Reason) int64 {
	switch r {
	case liveness.NoReason:
		return 0
	case liveness.Silence:
		return 1
	case liveness.Bye:
		return 2
	case liveness.Closed:
		return 3
	case liveness.Protocol:
		return 4
	case liveness.Will:
		return 5
	case liveness.Admin:
		return 6
	case liveness.Reported:
		return 7
	}
	return 0
}

// decoder has the meanings of the numbers.
type decoder struct {
	types   map[int64]liveness.Type
	states  map[int64]liveness.State
	reasons map[int64]liveness.Reason
}

func newDecoder() decoder {
	d := decoder{make(map[int64]liveness.Type), make(map[int64]liveness.State), make(map[int64]liveness.Reason)}
	for t := range liveness.Type(255) {
		if code := typeCode(t); code != 0 {
			d.types[code] = t
		}
	}
	for s := range liveness.Unknown {
		d.states[stateCode(s)] = s
	}
	for r := liveness.Reason(255); r > 0; r-- {
		d.reasons[reasonCode(r)] = r
	}
	d.reasons[0] = liveness.NoReason
	return d
}

const (
	eventFlapping = 1 << iota
	eventOutage
	eventMaintenance
)

const (
	deviceFlapping = 1 << iota
	deviceMaintenance
	deviceWindow
	deviceUnverified // its opposite is what rows of before there was this say
)

// flag returns bit if set, else 0.
func flag(set bool, bit int64) int64 {
	if set {
		return bit
	}
	return 0
}

// policyText returns a policy as text, such as "interval=30s timeout=1m30s"; empty for the zero policy.
func policyText(p liveness.Policy) string {
	if p == (liveness.Policy{}) {
		return ""
	}
	var b strings.Builder
	add := func(key, value string) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(key)
		b.WriteByte('=')
		b.WriteString(value)
	}
	span := func(key string, d time.Duration) {
		if d != 0 {
			add(key, d.String())
		}
	}
	span("interval", p.Interval)
	span("timeout", p.Timeout)
	span("late", p.LateAfter)
	span("close_grace", p.CloseGrace)
	span("sleep_limit", p.SleepLimit)
	span("probe_wait", p.ProbeWait)
	count := func(key string, n int) {
		if n != 0 {
			add(key, strconv.Itoa(n))
		}
	}
	count("probes", p.Probes)
	count("recover_after", p.RecoverAfter)
	if p.Quiet != "" {
		add("quiet", url.QueryEscape(p.Quiet))
	}
	if p.Expect != "" {
		add("expect", url.QueryEscape(p.Expect))
	}
	count("learn", int(p.Learn))
	if p.LearnBudget != 0 {
		add("learn_budget", strconv.FormatFloat(p.LearnBudget, 'g', -1, 64))
	}
	span("learn_max", p.LearnMax)
	return b.String()
}

// parsePolicy reads what policyText wrote.
func parsePolicy(text string) (liveness.Policy, error) {
	var p liveness.Policy
	for field := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(field, "=")
		if err := setPolicyField(&p, key, value); err != nil {
			return p, fmt.Errorf("policy %q: %w", text, err)
		}
	}
	return p, nil
}

// setPolicyField sets the field of a policy that has a key.
func setPolicyField(p *liveness.Policy, key, value string) (err error) {
	switch key {
	case "interval":
		p.Interval, err = time.ParseDuration(value)
	case "timeout":
		p.Timeout, err = time.ParseDuration(value)
	case "late":
		p.LateAfter, err = time.ParseDuration(value)
	case "close_grace":
		p.CloseGrace, err = time.ParseDuration(value)
	case "sleep_limit":
		p.SleepLimit, err = time.ParseDuration(value)
	case "probe_wait":
		p.ProbeWait, err = time.ParseDuration(value)
	case "probes":
		p.Probes, err = strconv.Atoi(value)
	case "recover_after":
		p.RecoverAfter, err = strconv.Atoi(value)
	case "quiet":
		p.Quiet, err = url.QueryUnescape(value)
	case "expect":
		p.Expect, err = url.QueryUnescape(value)
	case "learn":
		var mode uint64
		mode, err = strconv.ParseUint(value, 10, 8)
		p.Learn = judgement.LearnMode(mode)
	case "learn_budget":
		p.LearnBudget, err = strconv.ParseFloat(value, 64)
	case "learn_max":
		p.LearnMax, err = time.ParseDuration(value)
	default:
		return fmt.Errorf("what is %q?", key)
	}
	return err
}

// maxChanges is the number of changes that a record may have.
const maxChanges = 64

// packChanges returns a flapping history as bytes: the differences as variable-length numbers. It is
// never nil.
func packChanges(changes []int64) []byte {
	b := make([]byte, 0, 4*len(changes))
	before := int64(0)
	for _, at := range changes[max(len(changes)-maxChanges, 0):] {
		b = binary.AppendVarint(b, at-before)
		before = at
	}
	return b
}

func unpackChanges(b []byte) ([]int64, error) {
	var changes []int64
	before := int64(0)
	for len(b) > 0 {
		d, n := binary.Varint(b)
		if n <= 0 || len(changes) == maxChanges {
			return nil, errors.New("flapping history is damaged")
		}
		before += d
		changes = append(changes, before)
		b = b[n:]
	}
	return changes, nil
}

// maxMessage is the number of bytes that are kept of a message.
const maxMessage = liveness.MaxMessage
