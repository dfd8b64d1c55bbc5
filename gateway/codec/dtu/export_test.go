package dtu

// NewConn returns the codec of a connection, to measure it.
func NewConn() *conn { return &conn{} }
