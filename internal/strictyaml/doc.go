// Package strictyaml reads YAML files that people write by hand, and says what
// is wrong with them: every mistake with file, line, column, the line itself
// and what is allowed, all of them together.
//
// Parse checks that a text is a single YAML document of bounded size and
// returns its root with a Reader. The caller walks the document with the
// Reader: Mapping takes a table of Fields, each a key, the Setter of its
// value, and what the reference says about it; Value, Number, Span and others
// make Setters. A table needs no Reader. An unknown or repeated key is a
// mistake, and so is a tag or a value of the wrong kind. What only the caller
// can judge it adds with Fail. Errs returns the mistakes in the order of the
// file. The library's own decoder is not used: it stops at the first mistake,
// loses the line of a bad duration and reads the id 0123 as a number.
//
// No message shows what may be a secret: behind a word such as token, password
// or key the rest of the line is hidden, and so are the lines below it up to
// the next key that is not deeper; of an address with a password nothing is
// shown. A token that the caller's own message shows is the caller's mistake.
//
// The functions for single texts (Quote, DidYouMean, Duration, WholeNumber,
// Bool) serve the command line and the environment, too.
//
// A Reader is for one goroutine. Brackets may be 32 levels deep. The parser
// needs time that grows with the square of the keys of one mapping, so that
// Format bounds the keys of a file; a message takes time in proportion to the
// lines above it, and no more than twenty are made.
package strictyaml
