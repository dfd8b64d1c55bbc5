package strictyaml

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// DidYouMean returns a question that ends a message about a wrong word,
// `; did you mean "timeout"?`, or nothing where no allowed word is near. Of
// words that are equally near it takes the first.
func DidYouMean(wrong string, allowed []string) string {
	if near := nearest(wrong, allowed); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// nearest returns the allowed word nearest to a wrong one, or nothing.
func nearest(wrong string, allowed []string) string {
	fold := strings.NewReplacer("-", "", "_", "", " ", "").Replace
	wrong = fold(strings.ToLower(wrong))
	best, least := "", max(1, utf8.RuneCountInString(wrong)/3)+1
	for _, word := range allowed {
		d := distance(wrong, fold(word))
		if len(wrong) >= 3 && strings.HasPrefix(fold(word), wrong) {
			d = min(d, 1)
		}
		if d < least {
			best, least = word, d
		}
	}
	return best
}

// distance is the number of characters to insert, delete or change between a
// and b (Levenshtein), or more than any near miss if a is too long for one.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > len(y)+8 {
		return len(x)
	}
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i, c := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j, d := range y {
			cost := diagonal
			if c != d {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(y)]
}
