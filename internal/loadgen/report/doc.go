// Package report is what a person, or a program, sees of a run: a live view while it goes on, a few
// lines of text at its end, a file for programs (report.json) and a page for people (report.html).
//
// Whoever runs a fleet makes a [Sample] each second and a [Final] at the end. Both are plain data:
// histograms come as percentiles, and those of the whole run as buckets and in the encoding of
// HdrHistogram besides.
//
// Nothing here starts a goroutine. Texts that come from elsewhere (ids, answers, causes) are shown
// without their control characters.
package report
