"""How each of the scripts begins: one thread a process, and the right Python."""
import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DROVER = ROOT / os.environ.get("DROVER_BUILD", "build/dev") / "bin/drover"


def start(venv):
    """Goes on under the Python of the environment `venv`, unless None, and makes sure of numpy."""
    os.environ.update({v: "1" for v in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})
    os.environ["PYTHONWARNINGS"] = "ignore"
    name = Path(sys.argv[0]).name
    if venv:
        place = Path(venv).resolve()
        if not (place / "bin/python").exists():
            sys.exit(f"{name}: --venv {venv}: there is no bin/python in it\n  try: python3 -m venv {venv}")
        if Path(sys.prefix) != place:
            os.execv(place / "bin/python", [str(place / "bin/python"), *sys.argv])
    if not importlib.util.find_spec("numpy"):
        sys.exit(f"{name}: {sys.executable} has no numpy\n  try: /usr/bin/python3 {sys.argv[0]}, or --venv DIR")
