// Package config is the configuration of holter serve, holter monitor and holter ear: its
// shape, the strict reading of the YAML file, the order of precedence and the
// messages about what is wrong.
//
// Each setting has one line, in a table that tables lists: the setting it is,
// its bounds, its default, how a change of it comes in force, and what the
// reference says. A new setting is a new line.
//
// Resolve puts the pieces together. Command line and environment arrive as
// Settings, which override the file, which overrides the defaults; the
// caller parses the command line. The file is strict: an unknown
// or repeated key, a value of the wrong type or out of range is a mistake that
// names file, line, column and what is allowed. All mistakes are reported
// together. No message shows the value of token, nor that
// of a key that looks like a misspelt one, nor a URL with a password. Other
// packages check the patterns of rules and the names of presets, and get the
// error with its place from Rule.Mistake and Preset.Unknown.
//
// Only listen, http, http_rate, data, log, the address and the anonymous
// clients of MQTT and the names of bridges have defaults here. Every other field is
// zero if it was not given, and the package that uses it has the
// default; the zero value of each is explained in docs/reference/configuration.md.
//
// It keeps no state and starts no goroutine. A file is bounded to 1 MiB,
// 60 000 keys and 32 levels of brackets; the YAML parser needs time that grows
// with the square of the keys of one mapping: about a second for 25 000 devices.
package config
