package liveness

import "github.com/holter-iot/holter/liveness/judgement"

// State is the state of a device, see package judgement.
type State = judgement.State

// The states, see package judgement.
const (
	NeverSeen = judgement.NeverSeen
	Online    = judgement.Online
	Late      = judgement.Late
	Sleeping  = judgement.Sleeping
	Offline   = judgement.Offline
	Unknown   = judgement.Unknown
	Suspect   = judgement.Suspect
	Pending   = judgement.Pending
)

// Reason is why a device is offline, see package judgement.
type Reason = judgement.Reason

// The reasons, see package judgement.
const (
	NoReason = judgement.NoReason
	Silence  = judgement.Silence
	Bye      = judgement.Bye
	Closed   = judgement.Closed
	Protocol = judgement.Protocol
	Will     = judgement.Will
	Admin    = judgement.Admin
	Reported = judgement.Reported
)

// Policy defines how long a device may be silent, see package judgement.
type Policy = judgement.Policy

// Never is a timeout that does not pass, see package judgement.
const Never = judgement.Never
