"""The command lines of an example's README, as the tests run them."""
import functools
import os
import re
import shlex
import subprocess

from kit_ranks import BUILD, ROOT, clean_env

SHIMS = {  # what users have on their PATH
    "drover": f'exec {BUILD}/bin/drover "$@"\n',
    "python3": 'exec "${TEST_PYTHON:-/usr/bin/python3}" "$@"\n',
    # PyTorch 1.13 does not start under Python 3.11 without -r and -t, which write the lines with a prefix and to files
    "torchrun": 'exec "${TEST_PYTHON:-/usr/bin/python3}" -m torch.distributed.run -r 1 -t 1 --log_dir torchrun.logs "$@"\n',
}


@functools.cache
def can_import(python, package):
    return subprocess.run([python, "-c", f"import {package}"], check=False, capture_output=True).returncode == 0


def commands(folder):
    """The lines of the README's code blocks, without comments."""
    text = (ROOT / "examples" / folder / "README.md").read_text()
    return [line.split(" #")[0].strip() for line in re.findall(r"^    (\S.*)$", text, re.M)]


def prepare(directory):
    """Links the examples into a directory, and makes the programs that the lines start. -> its environment"""
    (directory / "examples").symlink_to(ROOT / "examples")
    (directory / "bin").mkdir()
    for name, text in SHIMS.items():
        (directory / "bin" / name).write_text(f"#!/bin/sh\n{text}")
        (directory / "bin" / name).chmod(0o755)
    return clean_env(PATH=f"{directory}/bin:{os.environ['PATH']}", OMP_NUM_THREADS="1", DROVER_CKPT_DIR="")


def run_line(line, directory, env, *more, timeout=100):
    """-> what the line printed; it must succeed."""
    done = subprocess.run([*shlex.split(line), *more], cwd=directory, env=env, text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=timeout, check=False)
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout
