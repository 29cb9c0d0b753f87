"""The files of the project, for the scripts beside this one: those that git tracks, or without git all but build/."""
import importlib.machinery
import importlib.util
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def sources(*suffixes):
    """Paths relative to ROOT whose names end with one of `suffixes`, sorted."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    except FileNotFoundError:
        done = None
    if done and done.returncode == 0:
        names = done.stdout.split("\n")
    else:
        names = []
        for folder, below, files in os.walk(ROOT):
            below[:] = [b for b in below if b not in ("build", ".git", "sweeps", "__pycache__")]
            names += [os.path.relpath(Path(folder) / f, ROOT) for f in files]
    return sorted(n for n in names if n.endswith(suffixes) and (ROOT / n).is_file())


def layers():
    """scripts/check-layers as a module: the table of folders and the modules that decide."""
    loader = importlib.machinery.SourceFileLoader("check_layers", str(ROOT / "scripts/check-layers"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_layers", loader))
    loader.exec_module(module)
    return module
