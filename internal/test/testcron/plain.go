package testcron

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Plain returns an expression of five fields that all libraries read alike: without L, W, #, years, and ranges past the end, Sunday is
// 0, and days have no */n, which for some is a day that is given, and for Vixie cron none.
func Plain(r *rand.Rand) Expression {
	return plain(r, []int{3, 2, 1, 1, 1})
}

// PlainSeconds returns such an expression of six fields, the second first. Each month counts.
func PlainSeconds(r *rand.Rand) Expression {
	text, set := "*", make([]bool, 60)
	if r.IntN(4) > 0 {
		text, set = plainField(r, 0, 59, true)
	}
	x := plain(r, []int{2, 2, 1, 0, 1})
	x.Text, x.Wild = text+" "+x.Text, x.Wild || text[0] == '*'
	x.second = func(second int) bool { return text == "*" || set[second] }
	return x
}

// plain is Plain. Of 4 fields so many are no star.
func plain(r *rand.Rand, often []int) Expression {
	x := Expression{days: make(map[int64]bool)}
	x.fields[5] = func(time.Time, int) bool { return true }
	texts := make([]string, len(often))
	for i := range texts {
		texts[i], x.fields[i] = "*", func(time.Time, int) bool { return true }
		if r.IntN(4) < often[i] {
			var set []bool
			b := bounds()[i]
			texts[i], set = plainField(r, b[0], b[1], i != 2 && i != 4)
			x.fields[i] = func(_ time.Time, value int) bool { return set[value] }
		}
	}
	x.Text = strings.Join(texts, " ")
	x.Wild = texts[0][0] == '*' || texts[1][0] == '*'
	x.either = texts[2] != "*" && texts[4] != "*"
	return x
}

// plainField returns a list of values, ranges and steps, and which values it has.
func plainField(r *rand.Rand, lo, hi int, stars bool) (string, []bool) {
	texts, set := make([]string, 1+r.IntN(3)), make([]bool, hi+1)
	for i := range texts {
		a, b, step := lo+r.IntN(hi-lo+1), lo+r.IntN(hi-lo+1), 1+r.IntN(hi-lo+3)
		a, b = min(a, b), max(a, b)
		kinds := 4
		if stars {
			kinds++
		}
		switch r.IntN(kinds) {
		case 0:
			texts[i], b = strconv.Itoa(a), a
		case 1:
			texts[i], step = fmt.Sprintf("%d-%d", a, b), 1
		case 2:
			texts[i] = fmt.Sprintf("%d-%d/%d", a, b, step)
		case 3:
			texts[i], b = fmt.Sprintf("%d/%d", a, step), hi
		default:
			texts[i], a, b = fmt.Sprintf("*/%d", step), lo, hi
		}
		for v := a; v <= b; v += step {
			set[v] = true
		}
	}
	return strings.Join(texts, ","), set
}

// Daily returns the expression of a time of day.
func Daily(minute, hour int) Expression {
	x := Expression{Text: fmt.Sprintf("%d %d * * *", minute, hour), days: make(map[int64]bool)}
	for i := range x.fields {
		x.fields[i] = func(time.Time, int) bool { return true }
	}
	x.fields[0] = func(_ time.Time, value int) bool { return value == minute }
	x.fields[1] = func(_ time.Time, value int) bool { return value == hour }
	return x
}
