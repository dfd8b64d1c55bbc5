// Package check holds the dashboards beside it against the schema of Grafana. It has tests only, and is
// a module of its own, so that nobody else needs that schema.
package check
