package config

// ParseText resolves the text of a file that need not exist.
func ParseText(name, text string) (Config, error) {
	var r resolver
	r.load(name, text)
	return r.finish()
}
