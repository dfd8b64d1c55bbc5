package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCommand prints a script that makes a shell complete command lines of holter.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the text below the usage line.
func (*completionCommand) Help() string {
	return `Examples:

    source <(holter completion bash)
    holter completion zsh > "${fpath[1]}/_holter"
    holter completion fish > ~/.config/fish/completions/holter.fish`
}

// Run prints the script. The scripts ask holter itself for the words that may follow.
func (c *completionCommand) Run(_ context.Context, out output) error {
	return say(out.stdout, "%s", map[string]string{
		"bash": `_holter() {
    mapfile -t COMPREPLY < <(compgen -W "$(holter completion-words -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o default -F _holter holter`,
		"zsh": `#compdef holter
compadd -- ${(f)"$(holter completion-words -- "${(@)words[2,CURRENT-1]}" 2>/dev/null)"} || _files`,
		"fish": `complete -c holter -a '(holter completion-words -- (commandline -opc)[2..-1] 2>/dev/null)'`,
	}[c.Shell])
}

// completionWordsCommand prints the words that may follow a command line, one a line.
type completionWordsCommand struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"The words before."`
}

// Run prints the words.
func (c *completionWordsCommand) Run(_ context.Context, command *kong.Context, out output) error {
	words := nextWords(command.Model.Node, slices.DeleteFunc(slices.Clone(c.Words), func(w string) bool { return w == "--" }))
	if len(words) == 0 {
		return nil
	}
	return say(out.stdout, "%s", strings.Join(words, "\n"))
}

// nextWords returns the words that may follow others: the values of the flag that is last, if it has
// a choice of them, else the commands and flags below the command that the others name.
func nextWords(node *kong.Node, words []string) (all []string) {
	for i, word := range words {
		if flag := flagOf(node, word); flag != nil {
			if i == len(words)-1 && !flag.IsBool() && !strings.Contains(word, "=") {
				return flag.EnumSlice()
			}
			continue
		}
		for _, child := range node.Children {
			if child.Name == word {
				node = child
				break
			}
		}
	}
	for _, child := range node.Children {
		if !child.Hidden {
			all = append(all, child.Name)
		}
	}
	for _, argument := range node.Positional {
		all = append(all, argument.EnumSlice()...)
	}
	if node.DefaultCmd != nil {
		node = node.DefaultCmd
	}
	for _, flags := range node.AllFlags(true) {
		for _, flag := range flags {
			all = append(all, "--"+flag.Name)
		}
	}
	return all
}

// flagOf returns the flag of a command, or of one above it, that a word names; nil if there is none.
func flagOf(node *kong.Node, word string) *kong.Flag {
	name, isFlag := strings.CutPrefix(word, "--")
	name, _, _ = strings.Cut(name, "=")
	for _, flags := range node.AllFlags(false) {
		for _, flag := range flags {
			if isFlag && flag.Name == name || flag.Short != 0 && word == fmt.Sprintf("-%c", flag.Short) {
				return flag
			}
		}
	}
	return nil
}
