package sqldb

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// leaseOp is a statement on the row of the table judge. seen is what a claim asks for.
type leaseOp struct {
	do   string
	seen judgeRow
	own  fence
}

// register is what the row is to the model. renewed is -1 after a renewal until somebody looks at it, since
// only then the clock of the database is known.
type register struct {
	fence

	renewed int64
}

// leaseModel is a register that is changed by compare-and-set.
func leaseModel(begin register) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return begin },
		Step: func(state, input, output any) (bool, any) {
			s, op := state.(register), input.(leaseOp)
			switch op.do {
			case "look":
				r := output.(judgeRow)
				return r.fence == s.fence && (s.renewed < 0 || s.renewed == r.renewed), register{r.fence, r.renewed}
			case "claim":
				ours := s == register{op.seen.fence, op.seen.renewed}
				if ours {
					s = register{op.own, -1}
				}
				return output.(bool) == ours, s
			case "renew":
				ours := s.nonce == op.own.nonce
				if ours {
					s = register{fence{max(s.term, op.own.term), s.nonce}, -1}
				}
				return output.(bool) == ours, s
			}
			if s.nonce == op.own.nonce { // clear
				s = register{fence{term: s.term}, 0}
			}
			return true, s
		},
	}
}

// CheckLease runs statements of concurrent processes on the lease of an empty database: what they see is what they would see one after the
// other.
func CheckLease(t *testing.T, url string) {
	t.Helper()
	b, err := backendOf(url)
	if err != nil {
		t.Fatal(err)
	}
	first := judge{b, b.leasePool()}
	if _, err := leaseStep(t.Context(), first, leaseOp{do: "look"}); err != nil { // makes the row
		t.Fatal(err)
	}
	_ = first.pool.Close()
	var running sync.WaitGroup
	var mu sync.Mutex // guards history
	var history []porcupine.Operation
	begun := time.Now()
	for client := range 6 {
		running.Go(func() {
			j := judge{b, b.leasePool()}
			defer func() { _ = j.pool.Close() }()
			random := rand.New(rand.NewPCG(1, uint64(client)))
			own := fence{nonce: -1} // nobody's
			var seen judgeRow
			for range 80 {
				op := leaseOp{[]string{"look", "look", "claim", "claim", "renew", "clear"}[random.IntN(6)], seen, own}
				if op.do == "claim" {
					op.own = fence{seen.next(0), newNonce()}
				}
				call := time.Since(begun)
				out, err := leaseStep(t.Context(), j, op)
				if err != nil {
					t.Error(err)
					return
				}
				done := porcupine.Operation{ClientId: client, Input: op, Call: int64(call), Output: out, Return: int64(time.Since(begun))}
				switch {
				case op.do == "look":
					seen = out.(judgeRow)
				case op.do == "claim" && out.(bool):
					own = op.own
				}
				mu.Lock()
				history = append(history, done)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	claims := 0
	for _, op := range history {
		if ours, ok := op.Output.(bool); ok && ours && op.Input.(leaseOp).do == "claim" {
			claims++
		}
	}
	t.Logf("%d statements, %d claims that succeeded", len(history), claims)
	if got := porcupine.CheckOperationsTimeout(leaseModel(register{}), history, time.Minute); got != porcupine.Ok || claims == 0 {
		t.Errorf("%v, with %d claims", got, claims)
	}
}

// leaseStep runs a statement.
func leaseStep(ctx context.Context, j judge, op leaseOp) (out any, err error) {
	const length = time.Minute
	who := identity{"n", "p"}
	err = j.on(ctx, patience, func(ctx context.Context, conn *sql.Conn) (err error) {
		switch op.do {
		case "look":
			out, _, err = j.find(ctx, conn)
		case "claim":
			out, err = j.claim(ctx, conn, op.seen, who, op.own, length)
		case "renew":
			out, err = j.renew(ctx, conn, who, op.own, length)
		default:
			out, err = true, j.clear(ctx, conn, op.own)
		}
		return err
	})
	return out, err
}
