package kafka

// ParseTarget is what a fuzz test looks at.
var ParseTarget = parseTarget
