package httpapi_test

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/httpapi"
)

// An id is text in a spreadsheet, however it begins.
func TestCSVHasNoFormulas(t *testing.T) {
	for id, want := range map[string]string{
		"=1+1": "'=1+1,", `=HYPERLINK("x")`: `"'=HYPERLINK(""x"")",`, "+49": "'+49,", "-1": "'-1,", "@x": "'@x,", "pump-1": "pump-1,", "a=1": "a=1,",
	} {
		var b strings.Builder
		if err := httpapi.WriteCSV(&b, []httpapi.DeviceAvailability{{Device: id}}); err != nil {
			t.Fatal(err)
		}
		if _, line, _ := strings.Cut(b.String(), "\n"); !strings.HasPrefix(line, want) {
			t.Errorf("%q is written as %.40q, want %q", id, line, want)
		}
	}
}
