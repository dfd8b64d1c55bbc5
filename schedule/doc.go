// Package schedule says when something is due, and runs it then: crontab expressions, periods down to a millisecond, days and
// weekdays, single instants. It has two parts.
//
// The pure part knows no clock and no goroutine: [Parse] makes a [Schedule] of a crontab expression, [Starting] lets it begin at an
// instant, and [Due] says what is to be run after a while in which nobody looked. Who keeps schedules in a database needs no more.
//
// The [Engine] runs funcs: [Engine.Every], [Engine.Cron], [Engine.Once] and [Engine.Schedule] describe a schedule, [Plan.Do] adds
// it, and the [Handle] that Do returns cancels it, pauses it, runs it now. One engine holds a million schedules on the timers of
// package timer: none has a goroutine while it waits, and the number of workers, which is that of runs at a time, is changed while
// they run. [Plan.DoTask] adds a task, which may fail, be retried ([Task.Retry]) and be followed by others ([Task.Then]).
//
// # Expressions
//
// A crontab expression has five fields: minute (0 to 59), hour (0 to 23), day of month (1 to 31), month (1 to 12 or JAN to DEC),
// day of week (0 to 7 or SUN to SAT; 0 and 7 are Sunday). With six fields the first is the second (0 to 59). With seven fields the
// first is the second and the last is the year (1970 to 2199): a year cannot be given without a second. A field is a list,
// such as 1,15,20-30/5, of values, ranges and steps; * stands for all, and so does ? for days. A range may pass the end, as in
// 22-2 for hours or FRI-MON for days. A step is counted from the beginning of its range, 5/15 begins a range that goes to the end
// (the week ends with Saturday), and a step wider than its range leaves the first value: */90 for minutes is 0, not each 90th.
// @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly stand for what they say, and "@every 90s" for
// a period. CRON_TZ=Europe/Berlin, or TZ=, before the fields names the time zone; a name needs the IANA time zone database, on
// the machine or linked in by importing time/tzdata.
//
// The day of month may also be L (the last day of the month), L-3 (the third day before it), 15W (the weekday, Monday to Friday,
// that is nearest to the 15th, in the same month; none if the month has no such day), LW (the last weekday) or L-3W. The day of
// week may also be 5L or FRIL (the last Friday of the month), 5#2 or FRI#2 (its second Friday).
//
// H stands for a value that the schedule's name chooses, so that many schedules do not run at once: H in its whole field (of days of
// the month, 1 to 28), H(0-29) in a range, and H/15 or H(0-29)/10 for steps that begin at a chosen value below the step. A name
// always has the same values, on each machine and in each version. H needs a name: see [ParseNamed] and [Plan.Name].
//
// As in every cron, a day matches if the day of month or the day of week does, where both fields are given. A field that begins
// with * (so */2 too) counts as not given, and then both must match.
//
// # Changes of the clock
//
// When local time jumps by less than three hours, as it does when daylight saving time begins and ends, schedules follow Vixie
// cron (cron(8), "Local time changes of less than three hours"). Those with * at the start of the second, minute or hour field
// follow the clock on the wall: what is skipped is not run, and what comes twice is run twice. All others have a fixed time of
// day: if that is skipped they run once, at the first instant after the gap, and if it comes twice they run the first time only.
// A greater jump, such as the whole day that Samoa left out in 2011, is a correction: the new time holds at once.
//
// When the machine's own clock is set, or the machine was suspended, schedules that name times of day notice within a second. What
// has run does not run again when the clock is set back, unless it is by a day or more: then it was wrong, and they go on from now.
// Periods are measured in time that passed, and do not care.
package schedule
