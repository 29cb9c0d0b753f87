"""A root that may have mounts of its own, for the tests that make nodes and small disks.

A chroot into a plain folder, as debootstrap leaves one, has none: a mount namespace made there cannot be kept apart
from its parent, since / is no mount of it, and unshare(1) refuses."""
import ctypes
import os
import subprocess

CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000


def _check(rc):
    if rc != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def enter():
    """Where root lacks it, goes on in a mount namespace in which / is a mount: our chroot, bound onto itself. Nothing
    outside sees that, and it ends with us. Where that cannot be had either, tests skip themselves, with the reason."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0:
        return
    libc, here = ctypes.CDLL(None, use_errno=True), os.getcwd()
    try:
        _check(libc.unshare(CLONE_NEWNS))
    except OSError:
        return
    chroot = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:  # mounts are bound by the names that they have outside of the chroot
        os.chroot("/proc")
        os.fchdir(chroot)
        while not os.path.samestat(os.stat("."), os.stat("..")):
            os.chdir("..")
        os.chroot(".")
        os.fchdir(chroot)
        name = os.getcwd().encode()
        _check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        _check(libc.mount(name, name, None, MS_BIND | MS_REC, None))
        os.chdir(name)
    except OSError:
        os.fchdir(chroot)
    os.chroot(".")
    os.chdir(here)
    os.close(chroot)
