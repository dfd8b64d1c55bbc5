package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/version"
)

// manualCommand writes the manual pages that packages bring along.
type manualCommand struct {
	Folder string `arg:"" help:"Where the pages go; it is created if need be."`
}

// Run writes holter.1 and a page for each command, such as holter-devices-list.1.
func (c *manualCommand) Run(_ context.Context, command *kong.Context, _ output) error {
	if err := os.MkdirAll(c.Folder, 0o755); err != nil { //nolint:gosec // pages are for everybody
		return err
	}
	return writeManual(c.Folder, command.Model.Node)
}

// writeManual writes the page of a command and those of the commands below it.
func writeManual(folder string, node *kong.Node) error {
	file := filepath.Join(folder, manualName(node)+".1")
	if err := os.WriteFile(file, []byte(manualPage(node)), 0o644); err != nil { //nolint:gosec // pages are for everybody
		return err
	}
	for _, child := range node.Children {
		if !child.Hidden {
			if err := writeManual(folder, child); err != nil {
				return err
			}
		}
	}
	return nil
}

// manualName is the name of a command's page: its words with hyphens between them.
func manualName(node *kong.Node) string {
	if node.Parent == nil {
		return node.Name
	}
	return manualName(node.Parent) + "-" + node.Name
}

// manualPage is the page of a command, as man(7) has it.
func manualPage(node *kong.Node) string {
	var p roff
	name := manualName(node)
	p.line(".TH %s 1 \"\" %q \"Holter\"", strings.ToUpper(name), "holter "+version.String())
	p.line(".nh")
	summary, more := node.Help, node.Detail
	if node.Parent == nil {
		summary, more, _ = strings.Cut(node.Help, "\n\n")
	}
	p.section("NAME")
	p.line(`%s \- %s`, escape(name), escape(strings.TrimSuffix(summary, ".")))
	p.section("SYNOPSIS")
	p.line(`\fB%s\fR %s`, escape(strings.ReplaceAll(name, "-", " ")), escape(synopsis(node)))
	if more != "" {
		p.section("DESCRIPTION")
		p.prose(more)
	}
	p.arguments(node.Positional)
	p.commands(node)
	p.options(node)
	p.section("SEE ALSO")
	p.seeAlso(node)
	return p.String()
}

// synopsis is what follows the name of a command.
func synopsis(node *kong.Node) string {
	parts := []string{"[options]"}
	for _, argument := range node.Positional {
		parts = append(parts, argument.Summary())
	}
	if len(node.Children) > 0 {
		parts = append(parts, "command ...")
	}
	return strings.Join(parts, " ")
}

// A roff is a page that is being written.
type roff struct{ strings.Builder }

func (p *roff) line(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) }

func (p *roff) section(name string) { p.line(".SH %s", name) }

// item writes a term and what it means.
func (p *roff) item(term, meaning string) {
	p.line(".TP\n%s\n%s", term, escape(meaning))
}

// prose writes paragraphs. Lines that are indented by four blanks are shown as they are.
func (p *roff) prose(text string) {
	verbatim := false
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.TrimSpace(line) == "":
			if verbatim {
				p.line(".fi\n.RE")
			}
			verbatim = false
			p.line(".PP")
		case indented:
			if !verbatim {
				p.line(".RS 4\n.nf")
			}
			verbatim = true
			p.line("%s", escape(code))
		default:
			p.line("%s", escape(line))
		}
	}
	if verbatim {
		p.line(".fi\n.RE")
	}
}

func (p *roff) arguments(positional []*kong.Positional) {
	if len(positional) == 0 {
		return
	}
	p.section("ARGUMENTS")
	for _, argument := range positional {
		p.item(fmt.Sprintf(`\fI%s\fR`, escape(argument.Name)), argument.Help)
	}
}

func (p *roff) commands(node *kong.Node) {
	if len(node.Children) == 0 {
		return
	}
	p.section("COMMANDS")
	for _, child := range node.Children {
		if !child.Hidden {
			p.item(fmt.Sprintf(`\fB%s\fR(1)`, escape(manualName(child))), child.Help)
		}
	}
}

func (p *roff) options(node *kong.Node) {
	p.section("OPTIONS")
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			meaning := flag.Help
			if len(flag.Envs) > 0 {
				meaning += " Environment: " + strings.Join(flag.Envs, ", ") + "."
			}
			p.item(fmt.Sprintf(`\fB%s\fR`, escape(flag.String())), meaning)
		}
	}
}

func (p *roff) seeAlso(node *kong.Node) {
	if node.Parent == nil {
		p.line("https://github.com/holter\\-iot/holter")
		return
	}
	p.line(`\fB%s\fR(1)`, escape(manualName(node.Parent)))
}

// escape writes text so that roff shows it as it is.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
