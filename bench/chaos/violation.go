package chaos

// ViolationKind is a kind of broken promise.
type ViolationKind string

const (
	// FalseOffline is a verdict that was not due.
	FalseOffline ViolationKind = "false offline"
	// MissedOffline is a verdict that is not there, or came too late.
	MissedOffline ViolationKind = "missed offline"
	// Unjudged is a dead device whose heard silence passed its timeout and three graces, and that
	// was not judged even then.
	Unjudged ViolationKind = "dead and not judged"
	// AnswerLost is a heartbeat or a write that was answered, or a state that was shown, and is
	// gone.
	AnswerLost ViolationKind = "answered and lost"
	// WrongState is a wrong state of a device: at the end, or online long after it fell silent.
	WrongState ViolationKind = "wrong state"
	// SequenceGap is a number missing from a subject's sequence.
	SequenceGap ViolationKind = "sequence gap"
	// Disorder is a number or an epoch that goes back, or is there twice, or two verdicts with no
	// return between them.
	Disorder ViolationKind = "order"
	// LostEvent is an event that a reader has seen, and that is gone or is another one now.
	LostEvent ViolationKind = "lost event"
	// OffsetGap is an offset missing from the log.
	OffsetGap ViolationKind = "offset gap"
	// WrongStream is a stream that differs from the log.
	WrongStream ViolationKind = "stream"
	// WrongEnd is a process that ended by itself, or not as it should.
	WrongEnd ViolationKind = "ended"
)

// ViolationKinds are all kinds, in the order in which a report has them.
func ViolationKinds() []ViolationKind {
	return []ViolationKind{
		FalseOffline, MissedOffline, Unjudged, AnswerLost, WrongState, SequenceGap, Disorder, LostEvent, OffsetGap, WrongStream, WrongEnd,
	}
}

// Violation is a broken promise, with the evidence.
type Violation struct {
	Kind    ViolationKind
	Subject string // device, source/NAME or group/NAME
	Offset  uint64 // of the event
	Detail  string
}
