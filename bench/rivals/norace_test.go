//go:build !race

package rivals

const raceDetector = false
