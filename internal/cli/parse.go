package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/version"
)

// parse reads a command line. The context is nil if the line asks for the help or the version, which
// parse then prints.
//
// Parse, Validate and Run of kong look methods up by names that the linker does not know. It then keeps
// all methods of the program, which are half of it.
func parse(k *kong.Kong, args []string) (*kong.Context, error) {
	c, err := kong.Trace(k, args)
	if err == nil {
		err = c.Error
	}
	if err != nil {
		return nil, err
	}
	for _, part := range c.Path {
		switch {
		case part.Flag == nil:
		case part.Flag == k.Model.HelpFlag:
			return nil, c.PrintUsage(false)
		case part.Flag.Target.Type() == reflect.TypeFor[kong.VersionFlag]():
			_, err := fmt.Fprintln(k.Stdout, version.Text())
			return nil, err
		}
	}
	if err := c.Reset(); err != nil {
		return nil, err
	}
	if _, err := c.Apply(); err != nil {
		return nil, err
	}
	return c, validate(c)
}

// validate checks values against each other and against their choices, and that nothing is missing. Its
// errors are those of kong.
func validate(c *kong.Context) error {
	for _, part := range c.Path {
		if node := part.Node(); node != nil {
			for _, v := range node.Values() {
				if err := checkChoice(v); err != nil {
					return err
				}
			}
		}
	}
	node := c.Model.Node
	if selected := c.Selected(); selected != nil {
		node = selected
	}
	if v, ok := reflect.TypeAssert[interface{ Validate(*kong.Context) error }](node.Target.Addr()); ok {
		if err := v.Validate(c); err != nil {
			return fmt.Errorf("%s: %w", node.Path(), err)
		}
	}
	for _, part := range c.Path {
		if err := checkRequired(part.Flags); err != nil {
			return err
		}
	}
	if err := checkComplete(node); err != nil {
		return err
	}
	for _, part := range c.Path {
		if err := checkExclusive(part.Flags); err != nil {
			return err
		}
	}
	return nil
}

// checkChoice refuses what is not among the choices of a value that has some.
func checkChoice(v *kong.Value) error {
	if v.Enum == "" || v.Required && !v.Set {
		return nil
	}
	given := []string{v.Target.String()}
	if list, ok := reflect.TypeAssert[[]string](v.Target); ok {
		given = list
	}
	for _, one := range given {
		if choices := v.EnumSlice(); !slices.Contains(choices, one) {
			for i := range choices {
				choices[i] = strconv.Quote(choices[i])
			}
			return fmt.Errorf("%s must be one of %s but got %q", v.ShortSummary(), strings.Join(choices, ","), one)
		}
	}
	return nil
}

func checkRequired(flags []*kong.Flag) error {
	var missing []string
	for _, flag := range flags {
		if flag.Required && !flag.Set {
			missing = append(missing, flag.Summary())
		}
	}
	if missing == nil {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("missing flags: %s", strings.Join(missing, ", "))
}

// checkComplete refuses a command that lacks arguments, or one of the commands below it.
func checkComplete(node *kong.Node) error {
	var missing, arguments []string
	for _, argument := range node.Positional {
		if argument.Required && !argument.Set {
			arguments = append(arguments, argument.Summary())
		}
	}
	if arguments != nil {
		missing = append(missing, strconv.Quote(strings.Join(arguments, " ")))
	}
	for _, child := range node.Children {
		if !child.Hidden {
			missing = append(missing, strconv.Quote(child.Name))
		}
	}
	switch {
	case missing == nil:
		return nil
	case len(missing) == 1:
		return fmt.Errorf("expected %s", missing[0])
	case len(missing) > 5:
		missing = append(missing[:5], "...")
	}
	return fmt.Errorf("expected one of %s", strings.Join(missing, ", "))
}

// checkExclusive refuses two flags that the tag xor keeps apart.
func checkExclusive(flags []*kong.Flag) error {
	seen := map[string]*kong.Flag{}
	for _, flag := range flags {
		for _, group := range flag.Xor {
			if other := seen[group]; flag.Set && other != nil {
				return fmt.Errorf("--%s and --%s can't be used together", other.Name, flag.Name)
			}
			if flag.Set {
				seen[group] = flag
			}
		}
	}
	return nil
}
