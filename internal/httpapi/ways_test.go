package httpapi

import "testing"

func TestHostOf(t *testing.T) {
	for host, want := range map[string]string{
		"holter.example:8080": "holter.example", "10.0.0.7": "10.0.0.7", "[::1]:8080": "::1", "[::1]": "::1", "": "localhost",
		"a;rm -rf /": "localhost", "$(x):80": "localhost", "-oProxy": "localhost",
	} {
		if got := hostOf(host); got != want {
			t.Errorf("hostOf(%q) = %q, want %q", host, got, want)
		}
	}
}
