package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// TermHeader is set in the answers to /healthz by a server that stands by: the latest term that it
// knows. No other server sets it.
const TermHeader = "Holter-Standby-Term"

// askWithin is how long an answer may take.
const askWithin = time.Second

// ErrAnotherJudge is wrapped by errors of [Roster.Ask] if a server does not stand by, or knows of a later
// term.
var ErrAnotherJudge = errors.New("cluster: another server judges")

// Ask returns an error unless all other servers that were alive, when the database was last reached,
// stand by and know of no term after this one's. A judge that cannot renew its lease asks
// again and again: without such an answer another server may have taken over, and devices that stay here would
// be silent for it. It returns nil if no other server is known. It takes a second at most.
func (r *Roster) Ask(ctx context.Context, client *http.Client, term int64) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	others := r.others()
	errs := make([]error, len(others))
	var all sync.WaitGroup
	for i, m := range others {
		all.Go(func() { errs[i] = ask(ctx, client, m, term) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("node %s at %s: %w", others[i].Node, others[i].API, err)
		}
	}
	return nil
}

func ask(ctx context.Context, client *http.Client, m Member, term int64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.API+"/healthz", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	_ = answer.Body.Close() // only the header counts
	known, err := strconv.ParseInt(answer.Header.Get(TermHeader), 10, 64)
	switch {
	case err != nil:
		return fmt.Errorf("%w: this one does not stand by (status %d)", ErrAnotherJudge, answer.StatusCode)
	case known > term:
		return fmt.Errorf("%w: this one knows of term %d, and that of this server is %d", ErrAnotherJudge, known, term)
	}
	return nil
}
