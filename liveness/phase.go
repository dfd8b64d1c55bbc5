package liveness

// phase is where a source stands in its life:
//
//	                  Pulse              Deafen
//	AddSource → added ─────→ listening ←─────────→ deaf
//	              ↑              ↓ Leave, Retire (of the owner)
//	              ├──────────  absent ─────────→ retired
//	              │              ↓ Await            │ AddSource
//	              └──────────────┼──────────────────┘
//	                          awaited ─────────→ returning ───→ listening
//	                                  AddSource            Pulse
//
// A source that was restored begins as an absent one. The phase changes with the source's mu held.
type phase uint32

const (
	added     phase = iota // it has an owner, who has not pulsed it since
	listening              // its latest pulse counts
	deaf                   // it lost its input, see [Source.Deafen], and was not pulsed since
	absent                 // restored and not added since, or it has left
	awaited                // absent, and its pool waits for it, see [operate.Owner]
	returning              // it was awaited and is added: its pool waits for its first pulse
	retired                // absent for so long that its clock follows others, see [operate.Registry]
)

// present reports whether the source has an owner.
func (p phase) present() bool { return p <= deaf || p == returning }

// held reports whether the source's pool waits for it, whatever the others have handled.
func (p phase) held() bool { return p == awaited || p == returning }

func (s *Source) phase() phase { return phase(s.stands.Load()) }

// pulsedLocked notes that the source was pulsed. It reports whether it begins to listen with that.
func (s *Source) pulsedLocked() (begins bool) {
	switch s.phase() {
	case added, deaf, returning:
		s.stands.Store(uint32(listening))
		return true
	case listening, absent, awaited, retired: // the clock of a retired one follows others by pulses
	}
	return false
}

// toldDeafLocked reports whether the latest event of the source says that it is deaf: they alternate.
func (s *Source) toldDeafLocked() bool { return s.seq%2 == 1 }
