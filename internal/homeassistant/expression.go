package homeassistant

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// expression is an expression of Jinja. It has the operators if, or, and, not, ==, !=, <, <=, >, >=, in, is, | and names, numbers, texts
// and lists. A value is nil (None), a bool, a json.Number, a string, an []any, a map[string]any or undefined{}.
type expression func(*values) any

// parseExpression parses an expression. Errors: what of it is not understood.
func parseExpression(text string) (e expression, err error) {
	p := &expressionParser{}
	if p.tokens, err = tokensOf(text); err != nil {
		return nil, err
	}
	if e, err = p.choice(0); err == nil && p.peek() != "" {
		err = fmt.Errorf("%.20q is not understood there", p.peek())
	}
	return e, err
}

// tokensOf splits an expression. A text keeps its first quote, as what it is.
func tokensOf(s string) (tokens []string, err error) {
	const operators = "== != <= >= "
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		n := len(s) - len(strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"))
		switch {
		case n > 0 && s[0] <= '9': // a number may have a point
			n = len(s) - len(strings.TrimLeft(s, "0123456789."))
		case n > 0:
		case s[0] == '\'' || s[0] == '"':
			end := strings.IndexByte(s[1:], s[0])
			if end < 0 || strings.Contains(s[1:1+end], "\\") {
				return nil, errors.New("a text has no end, or an escape")
			}
			tokens, s = append(tokens, "'"+s[1:1+end]), s[end+2:]
			continue
		case len(s) > 1 && strings.Contains(operators, s[:2]+" "):
			n = 2
		case strings.IndexByte("<>|.,()[]-", s[0]) >= 0:
			n = 1
		default:
			return nil, fmt.Errorf("%.10q is not understood", s)
		}
		tokens, s = append(tokens, s[:n]), s[n:]
	}
	return tokens, nil
}

type expressionParser struct{ tokens []string }

func (p *expressionParser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

// takeToken takes a token if it is the next.
func (p *expressionParser) takeToken(token string) bool {
	if p.peek() != token || token == "" {
		return false
	}
	p.tokens = p.tokens[1:]
	return true
}

// choice parses "a if b else c".
func (p *expressionParser) choice(depth int) (expression, error) {
	if depth > maxNested {
		return nil, errors.New("it is nested too deep")
	}
	a, err := p.either(depth)
	if err != nil || !p.takeToken("if") {
		return a, err
	}
	condition, err := p.either(depth)
	if err != nil {
		return nil, err
	}
	otherwise := expression(func(*values) any { return "" })
	if p.takeToken("else") {
		if otherwise, err = p.choice(depth + 1); err != nil {
			return nil, err
		}
	}
	return func(v *values) any {
		if isTrue(condition(v)) {
			return a(v)
		}
		return otherwise(v)
	}, nil
}

// either parses "a or b".
func (p *expressionParser) either(depth int) (expression, error) {
	a, err := p.both(depth)
	for err == nil && p.takeToken("or") {
		var b expression
		left := a
		b, err = p.both(depth)
		a = func(v *values) any {
			if x := left(v); isTrue(x) {
				return x
			}
			return b(v)
		}
	}
	return a, err
}

// both parses "a and b".
func (p *expressionParser) both(depth int) (expression, error) {
	a, err := p.negation(depth)
	for err == nil && p.takeToken("and") {
		var b expression
		left := a
		b, err = p.negation(depth)
		a = func(v *values) any {
			if x := left(v); !isTrue(x) {
				return x
			}
			return b(v)
		}
	}
	return a, err
}

// negation parses "not a".
func (p *expressionParser) negation(depth int) (expression, error) {
	negative := false
	for p.takeToken("not") {
		negative = !negative
	}
	a, err := p.comparison(depth)
	if err != nil || !negative {
		return a, err
	}
	return func(v *values) any { return !isTrue(a(v)) }, nil
}

// comparison parses "a == b", "a in b" and "a is defined".
func (p *expressionParser) comparison(depth int) (expression, error) {
	a, err := p.filtered(depth)
	if err != nil {
		return nil, err
	}
	op := p.peek()
	switch op {
	case "==", "!=", "<", "<=", ">", ">=", "in", "is", "not":
		p.takeToken(op)
	default:
		return a, nil
	}
	not := op == "not" || op == "is" && p.takeToken("not")
	if op == "is" {
		test := tests()[strings.ToLower(p.peek())]
		if test == nil {
			return nil, fmt.Errorf("is %.20s is not understood", p.peek())
		}
		p.takeToken(p.peek())
		return func(v *values) any { return test(a(v)) != not }, nil
	}
	if op == "not" {
		if op = "in"; !p.takeToken(op) {
			return nil, errors.New("not is there where only in may follow it")
		}
	}
	b, err := p.filtered(depth)
	return func(v *values) any { return compare(op, a(v), b(v)) != not }, err
}

// filtered parses "a | lower".
func (p *expressionParser) filtered(depth int) (expression, error) {
	a, err := p.path(depth)
	for err == nil && p.takeToken("|") {
		name := p.peek()
		p.takeToken(name)
		a, err = p.call(a, name, depth)
	}
	return a, err
}

// call parses the arguments of a filter, if there are any.
func (p *expressionParser) call(a expression, name string, depth int) (expression, error) {
	f := filters()[name]
	if f == nil {
		return nil, fmt.Errorf("the filter %.20s is not understood", name)
	}
	var args []expression
	var err error
	if p.takeToken("(") {
		if args, err = p.list(")", depth); err != nil {
			return nil, err
		}
	}
	return func(v *values) any {
		given := make([]any, 0, len(args)+2)
		for _, arg := range args {
			given = append(given, arg(v))
		}
		return f(a(v), given)
	}, nil
}

// list parses expressions up to a token.
func (p *expressionParser) list(end string, depth int) (all []expression, err error) {
	for !p.takeToken(end) {
		e, err := p.choice(depth + 1)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
		if !p.takeToken(",") && p.peek() != end {
			return nil, fmt.Errorf("%s is missing", end)
		}
	}
	return all, nil
}

// path parses "a.b['c']", and the methods of texts and of mappings.
func (p *expressionParser) path(depth int) (expression, error) {
	a, err := p.single(depth)
	for err == nil {
		of := a
		switch {
		case p.takeToken("."):
			name := p.peek()
			switch p.takeToken(name); {
			case p.peek() != "(":
				a = func(v *values) any { return member(of(v), name) }
			case name == "get":
				p.takeToken("(")
				var args []expression
				if args, err = p.list(")", depth); err == nil && len(args) == 0 {
					err = errors.New("get says not what")
				}
				a = func(v *values) any {
					x := member(of(v), args[0](v))
					if x == (undefined{}) && len(args) > 1 {
						return args[1](v)
					} else if x == (undefined{}) {
						return nil
					}
					return x
				}
			case name == "lower", name == "upper", name == "strip":
				a, err = p.call(of, name, depth)
			default:
				err = fmt.Errorf(".%.20s() is not understood", name)
			}
		case p.takeToken("["):
			var key []expression
			if key, err = p.list("]", depth); err == nil && len(key) != 1 {
				err = errors.New("[ ] has not one key")
			}
			a = func(v *values) any { return member(of(v), key[0](v)) }
		default:
			return a, nil
		}
	}
	return nil, err
}

// single parses what has no operators outside of brackets.
func (p *expressionParser) single(depth int) (expression, error) {
	token := p.peek()
	p.takeToken(token)
	switch strings.ToLower(token) {
	case "true", "false":
		return func(*values) any { return len(token) == len("true") }, nil
	case "none":
		return func(*values) any { return nil }, nil
	}
	switch {
	case token == "value":
		return func(v *values) any { return v.payload }, nil
	case token == "value_json":
		return func(v *values) any { return v.parsed }, nil
	case token == "(":
		e, err := p.choice(depth + 1)
		if err == nil && !p.takeToken(")") {
			err = errors.New(") is missing")
		}
		return e, err
	case token == "[":
		items, err := p.list("]", depth)
		return func(v *values) any {
			all := make([]any, 0, len(items))
			for _, e := range items {
				all = append(all, e(v))
			}
			return all
		}, err
	case strings.HasPrefix(token, "'"):
		return func(*values) any { return token[1:] }, nil
	}
	sign := ""
	if token == "-" {
		sign, token = token, p.peek()
		p.takeToken(token)
	}
	if _, err := strconv.ParseFloat(token, 64); err != nil || token[0] > '9' {
		return nil, fmt.Errorf("%.20q is not understood; there are value, value_json, texts and numbers", token)
	}
	return func(*values) any { return json.Number(sign + token) }, nil
}
