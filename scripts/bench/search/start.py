"""How each of the scripts begins: one thread a process, and the right Python."""
import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DROVER = ROOT / os.environ.get("DROVER_BUILD", "build/dev") / "bin/drover"


def die(text, way_out):
    """The command line is wrong, or something is missing: nothing was done."""
    print(f"{Path(sys.argv[0]).name}: {text}\n  try: {way_out}", file=sys.stderr)
    sys.exit(2)


def start(venv):
    """Goes on under the Python of the environment `venv`, unless None, and makes sure of numpy."""
    os.environ.update({v: "1" for v in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})
    os.environ["PYTHONWARNINGS"] = "ignore"
    if venv:
        place = Path(venv).resolve()
        if not (place / "bin/python").exists():
            die(f"--venv {venv}: there is no bin/python in it", f"python3 -m venv {venv}")
        if Path(sys.prefix) != place:
            os.execv(place / "bin/python", [str(place / "bin/python"), *sys.argv])
    if not importlib.util.find_spec("numpy"):
        die(f"{sys.executable} has no numpy", f"/usr/bin/python3 {sys.argv[0]}, or --venv DIR")
