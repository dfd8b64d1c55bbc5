package jetstream

// What the fuzz tests look at.
var (
	ParseTarget  = parseTarget
	CheckSubject = checkSubject
	SubjectOf    = subjectOf
	HeaderID     = headerID
)
