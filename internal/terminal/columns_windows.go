package terminal

import (
	"os"

	"golang.org/x/sys/windows"
)

// columns returns how wide a console is, and has it understand escape sequences; an error if the file
// is none, or one that does not.
func columns(f *os.File) (int, error) {
	console := windows.Handle(f.Fd())
	var mode uint32
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return 0, err
	}
	if err := windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING); err != nil {
		return 0, err
	}
	var info windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(console, &info); err != nil {
		return 0, err
	}
	return int(info.Window.Right-info.Window.Left) + 1, nil
}
