package timer_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/holter-iot/holter/timer"
)

// The examples move the clock by hand, so that they print the same every time. Deadlines are
// rounded up to Resolution, so a step of the clock that shall reach them is that much longer.

// startExample returns an engine on a hand-moved clock.
func startExample(cfg timer.Config) (*timer.Engine, *timer.Manual) {
	clock := new(timer.Manual)
	cfg.Clock = clock
	e, err := timer.Start(cfg)
	if err != nil {
		panic(err) // the configuration is wrong
	}
	return e, clock
}

func closeExample(e *timer.Engine) {
	if err := e.Close(context.Background()); err != nil {
		panic(err) // the context has ended
	}
}

func Example() {
	e, err := timer.Start(timer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	called := make(chan struct{})
	if _, err := e.AfterFunc(10*time.Millisecond, func() { close(called) }); err != nil {
		fmt.Println(err)
	}
	<-called
	fmt.Println("called after 10 ms or more:", e.Now() >= 10*time.Millisecond)
	fmt.Println("closed:", e.Close(context.Background()))
	// Output:
	// called after 10 ms or more: true
	// closed: <nil>
}

// A fleet of devices, each of which must be heard every 30 seconds: one handler for all, and one
// touch for a heartbeat.
func ExampleEngine_Touch() {
	e, clock := startExample(timer.Config{})
	defer closeExample(e)
	silent := make(chan uint64)
	devices, _ := e.Group(func(expired []timer.Expired) {
		for _, x := range expired {
			silent <- x.Data
		}
	})

	now := e.Now()
	seven, _ := devices.Arm(now, 30*time.Second, 7)
	eight, _ := devices.Arm(now, 30*time.Second, 8)

	clock.Advance(20 * time.Second)
	now = e.Now() // read once for all the heartbeats of a while
	fmt.Println("heartbeat of 8 in time:", e.Touch(eight, now))

	clock.Advance(10*time.Second + timer.Resolution)
	fmt.Println("silent:", <-silent)
	fmt.Println("heartbeat of 7 in time:", e.Touch(seven, e.Now()))

	clock.Advance(20*time.Second + timer.Resolution)
	fmt.Println("silent:", <-silent)
	// Output:
	// heartbeat of 8 in time: true
	// silent: 7
	// heartbeat of 7 in time: false
	// silent: 8
}

func ExampleEngine_AfterFunc() {
	e, clock := startExample(timer.Config{})
	defer closeExample(e)
	called := make(chan string)
	tea, _ := e.AfterFunc(3*time.Minute, func() { called <- "tea" })
	eggs, _ := e.AfterFunc(5*time.Minute, func() { called <- "eggs" })

	fmt.Println("no eggs today:", e.Cancel(eggs))
	clock.Advance(3*time.Minute + timer.Resolution)
	fmt.Println(<-called)
	fmt.Println("too late:", e.Cancel(tea))
	// Output:
	// no eggs today: true
	// tea
	// too late: false
}

func ExampleEngine_AtFunc() {
	e, clock := startExample(timer.Config{})
	defer closeExample(e)
	called := make(chan struct{})
	id, _ := e.AtFunc(time.Hour, func() { close(called) })

	left, _ := e.Remaining(id, 45*time.Minute)
	fmt.Println("left at 45 minutes:", left.Round(time.Second))
	clock.Set(time.Hour + timer.Resolution)
	<-called
	_, armed := e.Remaining(id, time.Hour)
	fmt.Println("armed:", armed)
	// Output:
	// left at 45 minutes: 15m0s
	// armed: false
}

// A fixed rate keeps its phase: the thousandth run of every third of a second is due a thousand
// thirds after the start.
func ExampleEngine_RepeatFunc() {
	e, clock := startExample(timer.Config{})
	defer closeExample(e)
	ran := make(chan struct{})
	id, _ := e.RepeatFunc(time.Second/3, timer.FixedRate, func() { ran <- struct{}{} })

	for range 1000 {
		clock.Advance(time.Second / 3)
		if e.Now() == time.Second/3 {
			clock.Advance(timer.Resolution)
		}
		<-ran
	}
	fmt.Println("runs end at", e.Now().Round(time.Millisecond))
	fmt.Println("cancelled:", e.Cancel(id))
	// Output:
	// runs end at 5m33.333s
	// cancelled: true
}

// Like a line of crontab: every hour at ten past.
func ExampleGroup_Repeat() {
	e, clock := startExample(timer.Config{})
	defer closeExample(e)
	ran := make(chan time.Duration)
	jobs, _ := e.Group(func(expired []timer.Expired) {
		for _, x := range expired {
			ran <- x.Deadline
		}
	})
	clock.Set(25 * time.Minute) // when the program starts

	start := 10*time.Minute - time.Hour // the last time that it could have run is one period before the first one
	for start+time.Hour <= e.Now() {
		start += time.Hour
	}
	hourly, _ := jobs.Repeat(start, time.Hour, timer.FixedRate, 1)
	for range 3 {
		clock.Advance(time.Hour)
		fmt.Println("ran at", (<-ran).Round(time.Second))
	}
	e.Reset(hourly, 4*time.Hour, 30*time.Minute) // from then on twice as often
	clock.Set(4*time.Hour + 30*time.Minute + timer.Resolution)
	fmt.Println("ran at", (<-ran).Round(time.Second))
	// Output:
	// ran at 1h10m0s
	// ran at 2h10m0s
	// ran at 3h10m0s
	// ran at 4h30m0s
}

// A timer that is of no use once a request is over.
func ExampleEngine_Bind() {
	e, clock := startExample(timer.Config{})
	defer closeExample(e)
	ctx, cancel := context.WithCancel(context.Background())
	id, _ := e.AfterFunc(time.Minute, func() { fmt.Println("not reached") })
	fmt.Println("bound:", e.Bind(ctx, id))

	cancel()
	for e.Len() > 0 { // the timer is cancelled on a goroutine of the context
		runtime.Gosched()
	}
	clock.Advance(time.Hour)
	fmt.Println("timers left:", e.Len())
	// Output:
	// bound: true
	// timers left: 0
}

// A clock that is moved by hand makes tests exact, and counts what only its owner knows: here the
// time for which a line is open.
func ExampleManual() {
	lineTime := new(timer.Manual)
	e, err := timer.Start(timer.Config{Clock: lineTime})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer closeExample(e)
	expired := make(chan struct{})
	id, _ := e.AfterFunc(time.Minute, func() { close(expired) })

	lineTime.Advance(40 * time.Second)
	// The line is closed. However long that lasts, no timer moves.
	left, _ := e.Remaining(id, e.Now())
	fmt.Println("left:", left.Round(time.Second))
	lineTime.Advance(20*time.Second + timer.Resolution)
	<-expired
	fmt.Println("expired at", e.Now().Round(time.Second), "of line time")
	// Output:
	// left: 20s
	// expired at 1m0s of line time
}

// With Eager the memory of a cancelled timer is free at once; without, when the dead entries
// outnumber the others.
func ExampleConfig_eager() {
	for _, eager := range []bool{false, true} {
		e, _ := startExample(timer.Config{Eager: eager})
		timers, _ := e.Group(func([]timer.Expired) {})
		for i := range uint64(100) {
			id, _ := timers.Arm(0, time.Hour, i)
			if i < 40 {
				e.Cancel(id)
			}
		}
		st := e.Stats()
		fmt.Printf("eager %v: %d armed, %d entries\n", eager, st.Armed, st.Hints)
		if err := e.Close(context.Background()); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// eager false: 60 armed, 100 entries
	// eager true: 60 armed, 60 entries
}

// TouchTo moves a deadline either way, for a device that says how long it will be silent.
func ExampleEngine_TouchTo() {
	e, _ := startExample(timer.Config{})
	defer closeExample(e)
	devices, _ := e.Group(func([]timer.Expired) {})
	id, _ := devices.Arm(0, 30*time.Second, 1)

	e.TouchTo(id, 8*time.Hour)
	at, _ := e.Deadline(id)
	fmt.Println("asleep until", at.Round(time.Second))
	e.TouchTo(id, time.Minute)
	at, _ = e.Deadline(id)
	fmt.Println("woken, due at", at.Round(time.Second))
	// Output:
	// asleep until 8h0m0s
	// woken, due at 1m0s
}

// Timers that are of no use once a channel is closed.
func ExampleEngine_BindChan() {
	e, _ := startExample(timer.Config{})
	defer closeExample(e)
	done := make(chan struct{})
	for range 1000 {
		id, _ := e.AfterFunc(time.Minute, func() { fmt.Println("not reached") })
		e.BindChan(done, id)
	}

	close(done)
	for e.Len() > 0 { // a goroutine cancels them all
		runtime.Gosched()
	}
	fmt.Println("timers left:", e.Len())
	// Output:
	// timers left: 0
}

// The heartbeats that one read of a socket has brought.
func ExampleEngine_Prefetch() {
	e, _ := startExample(timer.Config{})
	defer closeExample(e)
	devices, _ := e.Group(func([]timer.Expired) {})
	var heard []timer.ID
	for i := range uint64(100) {
		id, _ := devices.Arm(0, 30*time.Second, i)
		heard = append(heard, id)
	}
	e.Cancel(heard[42])

	now := e.Now()
	for some := range slices.Chunk(heard, 64) {
		for _, id := range some {
			e.Prefetch(id)
		}
		for _, id := range some {
			if !e.Touch(id, now) {
				fmt.Println("no longer there:", slices.Index(heard, id))
			}
		}
	}
	// Output:
	// no longer there: 42
}
