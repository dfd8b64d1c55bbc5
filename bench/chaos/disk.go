package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// disk is a small file system in memory, which can be filled.
type disk struct{ dir string }

const ballast = "ballast"

// mountDisk mounts a disk at a directory. It needs the right to mount.
func mountDisk(dir string) (*disk, error) {
	err := unix.Mount("holter-chaos", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=128m,mode=700")
	if err != nil {
		return nil, os.NewSyscallError("mount", err)
	}
	return &disk{dir}, nil
}

// fill writes a file until nothing more fits.
func (d *disk) fill() error {
	f, err := os.Create(filepath.Join(d.dir, ballast))
	for size := 1 << 20; size > 0 && err == nil; {
		if _, err = f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size, err = size/2, nil
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("fill the disk: %w", err)
	}
	return nil
}

// free removes that file.
func (d *disk) free() error { return os.Remove(filepath.Join(d.dir, ballast)) }

// unmount gives the disk back, even if it is still in use.
func (d *disk) unmount() error {
	return os.NewSyscallError("umount", unix.Unmount(d.dir, unix.MNT_DETACH))
}
