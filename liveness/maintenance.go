package liveness

import "time"

// marks are what is known of a device beside its condition.
type marks uint8

const (
	byOperator   marks = 1 << iota // in maintenance
	byWindow                       // a maintenance window covers it
	suppressed                     // that window excuses its silence
	statePending                   // its change of state waits for the sink
)

func marksOf(rec *Record) (m marks) {
	if rec.Maintenance {
		m |= byOperator
	}
	if rec.Window {
		m |= byWindow
	}
	return m
}

// maintained says whether nobody is to be alarmed by the device.
func (d *device) maintained() bool { return d.marks&(byOperator|byWindow) != 0 }

// excuse says until when a device's silence does not count.
type suppression struct {
	source *Source
	until  time.Duration // listening time of the source
}

// Window is a maintenance window that covers a device.
type Window struct {
	Name string
	// Excuse is how far its end is away, if the silence before it does not count: then the device is not judged for a silence, or for a
	// connection that ended, until its whole timeout has passed after the end. 0: it is judged as ever.
	Suppress time.Duration
}

// suppressionTolerance is by how much the end of a window may have moved without anybody looking at its devices anew: clocks do not agree.
const suppressionTolerance = 2 * time.Second

// Cover looks at up to limit devices, from a place on, and sees to it that those which a maintenance window covers, and no others, are known to
// be so; it says how many that changed, and where to go on, 0 at the end. by is asked for each with its lock held: it must return at once, and
// not ask the registry. A device that comes to be covered is in maintenance as with [Registry.SetMaintenance]; the events of this have the
// window's name as Message, and those of devices that are not covered any more have ended. What is known is kept in the devices' records.
//
// It makes way for all others: while more than a quarter of Config.Outbox waits for the sink it returns [ErrBusy], and the place to go on from.
func (r *Registry) Cover(from Cursor, limit int, ended string, by func(id, group string) (w Window, covered bool)) (next Cursor, changed int, err error) {
	shard, i := int(from>>32), int(uint32(from))
	for ; shard < shardCount; shard, i = shard+1, 0 {
		sh := &r.shards[shard]
		sh.mu.Lock()
		for ; i < sh.len && limit > 0; i++ {
			if r.outbox.queued.Load() > int64(r.outbox.limit)/4 {
				err, limit = ErrBusy, 0
				break
			}
			d := sh.at(handleOf(i, shard))
			if d == nil || d.gone {
				continue
			}
			limit--
			w, covered := by(d.id, d.group())
			if !covered {
				w = Window{Name: ended}
			}
			if r.coverLocked(sh, d, w, covered) {
				changed++
			}
		}
		more := i < sh.len
		sh.mu.Unlock()
		if more {
			return Cursor(shard)<<32 | Cursor(i), changed, err
		}
	}
	return 0, changed, nil
}

// coverLocked makes a device known to be covered or not, and says whether that is new.
func (r *Registry) coverLocked(sh *deviceShard, d *device, w Window, covered bool) bool {
	if d.source != nil {
		r.setSuppressionLocked(sh, d, w.Suppress)
	}
	if covered == (d.marks&byWindow != 0) {
		return false
	}
	was := d.standing()
	d.marks ^= byWindow
	r.regroupLocked(d, was, d.since)
	kind := DeviceMaintenanceStopped
	if covered {
		kind = DeviceMaintenanceStarted
	}
	var now time.Duration
	if d.source != nil {
		now = max(d.source.Now(), d.lastLocked())
	}
	r.emitLocked(sh, d, kind, w.Name, now)
	return true
}

// setSuppressionLocked excuses a device's silence for so long, or no longer.
func (r *Registry) setSuppressionLocked(sh *deviceShard, d *device, left time.Duration) {
	now := d.source.Now()
	was, end := sh.suppressions[d.id], now+min(left, maxSpan)
	isSuppressed := d.marks&suppressed != 0 && was.source == d.source
	switch {
	case left == 0 && d.marks&suppressed == 0:
		return
	case left == 0 && (!isSuppressed || was.until+d.rule.Value().Timeout <= now): // it is over
		delete(sh.suppressions, d.id)
		d.marks &^= suppressed
	case left == 0 && was.until <= now+suppressionTolerance: // its timeout begins
		return
	case isSuppressed && (end-was.until).Abs() <= suppressionTolerance:
		return
	default:
		sh.suppressLocked(d, end)
	}
	r.rearmLocked(sh, d)
}

// rearmLocked arms the device's next step anew. If the verdict is on its way, that looks at the excuse.
func (r *Registry) rearmLocked(sh *deviceShard, d *device) {
	if f, known := d.conditionLocked(); known && d.expected() {
		r.setLocked(sh, d, f, max(d.source.Now(), d.lastLocked()))
	}
}

// excuse excuses a device's silence until a listening time. The shard is locked.
func (sh *deviceShard) suppressLocked(d *device, until time.Duration) {
	if sh.suppressions == nil {
		sh.suppressions = make(map[string]suppression)
	}
	sh.suppressions[d.id] = suppression{d.source, until}
	d.marks |= suppressed
}

// Suppress excuses the silence of devices for windows that an earlier process knew of, as [Registry.Cover] does. by says how far the end of the
// last of a device's windows is away, or, negative, how long ago in listening time it was; then the device has the rest of its timeout, which by
// is told. It is called with the device's lock held, and must not ask the registry. Call Excuse once the devices are restored, before their
// sources listen. It causes no events.
func (r *Registry) Suppress(by func(id, group string, timeout time.Duration) (end time.Duration, ok bool)) {
	for shard := range r.shards {
		sh := &r.shards[shard]
		sh.mu.Lock()
		for i := range sh.len {
			d := sh.at(handleOf(i, shard))
			if d == nil || d.gone || d.source == nil {
				continue
			}
			timeout := d.rule.Value().Timeout
			end, ok := by(d.id, d.group(), timeout)
			if !ok || end <= -timeout {
				continue
			}
			sh.suppressLocked(d, d.source.Now()+min(end, maxSpan))
			r.rearmLocked(sh, d)
		}
		sh.mu.Unlock()
	}
}

// group returns the name of the device's group, empty if it has none.
func (d *device) group() string {
	if g := d.rule.Value().group; g != nil {
		return g.Name
	}
	return ""
}

// notBeforeLocked returns the listening time before which the device, with these condition, is not to be judged.
func (d *device) notBeforeLocked(f condition, p Policy) time.Duration {
	if d.marks&suppressed != 0 {
		if x := d.source.registry.shards[d.handle%shardCount].suppressions[d.id]; x.source == d.source {
			return max(x.until+p.Timeout, d.source.notBefore(f.last, max(f.from(), x.until), p))
		}
	}
	return d.source.notBefore(f.last, f.from(), p)
}
