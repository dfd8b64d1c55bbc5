package httpapi

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/negotiation"
)

const (
	jsonType = "application/json"
	csvType  = "text/csv"
	csvMeans = "CSV has a line for each device, below a head; an id that a spreadsheet would take for a formula has an apostrophe before it."
)

// FormatQuery are the parameters of the format of an answer.
type FormatQuery struct {
	Format string `query:"format" enum:"json,csv" doc:"csv: the answer is CSV, as with Accept: text/csv. Left out: what Accept prefers, or JSON."`

	accept string
}

// wantsCSV reports whether the answer is to be CSV.
func (i *FormatQuery) wantsCSV() bool {
	if i.Format != "" {
		return i.Format == "csv"
	}
	return negotiation.SelectQValueFast(i.accept, []string{jsonType, csvType}) == csvType
}

// formatted is an answer in one of two formats.
type formatted struct {
	csv  bool
	rows []DeviceAvailability // of the CSV
	next string               // address of the CSV's next page; empty if there is none
	body any                  // of the JSON
}

// serveFormats adds an operation that answers with JSON, which is an O, or with CSV.
func serveFormats[O, I any](a *API, api huma.API, op huma.Operation, handle func(context.Context, *I) (formatted, error)) {
	schema := huma.SchemaFromType(api.OpenAPI().Components.Schemas, reflect.TypeFor[O]())
	op.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{
		jsonType: {Schema: schema}, csvType: {Schema: textOf("A line for each device.")},
	}}}
	huma.Register(api, op, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, a.problem(ctx, err)
		}
		return &huma.StreamResponse{Body: out.write}, nil
	})
}

// write writes the answer.
func (f *formatted) write(ctx huma.Context) {
	ctx.AppendHeader("Vary", "Accept")
	if !f.csv {
		ctx.SetHeader("Content-Type", jsonType)
		_ = json.NewEncoder(ctx.BodyWriter()).Encode(f.body) // the client may be gone
		return
	}
	ctx.SetHeader("Content-Type", csvType+"; charset=utf-8; header=present")
	if f.next != "" {
		ctx.SetHeader("Link", "<"+f.next+`>; rel="next"`)
	}
	_ = WriteCSV(ctx.BodyWriter(), f.rows) // the same
}

// WriteCSV writes a line for each device below a head, as the API does. An id that a spreadsheet would take for a formula has an apostrophe
// before it.
func WriteCSV(to io.Writer, rows []DeviceAvailability) error {
	w := csv.NewWriter(to)
	_ = w.Write([]string{ // Error tells
		"device", "from", "to", "known_from", "share", "online_ms", "late_ms", "sleeping_ms", "offline_ms", "bye_ms", "deaf_ms", "maintenance_ms", "unknown_ms",
		"outages", "mtbf_ms", "mttr_ms", "longest_outage_ms",
	})
	for i := range rows {
		d := &rows[i]
		_ = w.Write([]string{
			cellText(d.Device), instantText(&d.From), instantText(&d.To), instantText(d.Known), numberText(d.Share), numberText(&d.Online), numberText(&d.Late),
			numberText(&d.Sleeping), numberText(&d.Offline), numberText(&d.Bye), numberText(&d.Deaf), numberText(&d.Maintenance), numberText(&d.Unknown),
			strconv.Itoa(d.Outages), numberText(d.MTBF), numberText(d.MTTR), numberText(&d.Longest),
		})
	}
	w.Flush()
	return w.Error()
}

// cellText returns an id as a spreadsheet shows it: one that begins like a formula could make the program run it
// (https://owasp.org/www-community/attacks/CSV_Injection).
func cellText(id string) string {
	if id != "" && strings.ContainsRune("=+-@", rune(id[0])) {
		return "'" + id
	}
	return id
}

// instantText returns an instant; empty if there is none.
func instantText(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// numberText returns a number, without an exponent; empty if there is none.
func numberText(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}
