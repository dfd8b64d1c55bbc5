// Command measure prints the size of each package of a Go tree: lines, lengths of files and
// functions, density of comments, and exported names.
//
//	go run ./internal/tools/measure [-unused | -path] [folder]
//
// It reads the files that are not tests below the folder (default: the current one), other modules
// included, and writes one row for each package and one for the whole. With -unused it lists
// instead the exported names of each package that no code outside of it uses but tests. With -path it
// builds the program so that it counts, and lists the functions that a heartbeat and a verdict run through.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	unused := flag.Bool("unused", false, "list the exported names that only tests or nobody outside the package uses")
	paths := flag.Bool("path", false, "list the functions that a heartbeat and a verdict run through, by file")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	if err := run(os.Stdout, root, *unused, *paths); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, root string, unused, paths bool) error {
	if paths {
		return printPaths(w, root)
	}
	t, err := load(root)
	if err != nil {
		return err
	}
	if unused {
		return printUnused(w, t)
	}
	return printSizes(w, t)
}

func printSizes(w io.Writer, t *tree) error {
	rows := []string{"package\tfiles\tlines\tcode\tcomment/code\tfile p50\tp90\tmax\tfunction p50\tp90\tmax\tnames\tmethods\ttest lines\t"}
	var all size
	for _, p := range t.packages {
		rows = append(rows, row(p.folder, p.size))
		all.add(p.size)
	}
	rows = append(rows, row("all", all), "")
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := io.WriteString(out, strings.Join(rows, "\n")); err != nil {
		return err
	}
	return out.Flush()
}

func row(name string, s size) string {
	slices.Sort(s.files)
	slices.Sort(s.functions)
	density := 0.0
	if s.code > 0 {
		density = float64(s.comments) / float64(s.code)
	}
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%.2f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t", name, len(s.files), sum(s.files), s.code, density,
		at(s.files, 50), at(s.files, 90), at(s.files, 100), at(s.functions, 50), at(s.functions, 90), at(s.functions, 100),
		s.names, s.methods, s.testLines)
}

func printUnused(w io.Writer, t *tree) error {
	for _, p := range t.packages {
		if names := t.unused(p); len(names) > 0 {
			if _, err := fmt.Fprintf(w, "%s (%d): %s\n", p.folder, len(names), strings.Join(names, " ")); err != nil {
				return err
			}
		}
	}
	return nil
}

// at returns the smallest of the sorted lengths that percent of them do not exceed; 0 of none.
func at(sorted []int, percent int) int {
	if len(sorted) == 0 {
		return 0
	}
	i := (len(sorted)*percent + 99) / 100
	return sorted[max(i, 1)-1]
}

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}
