"""For tests of `drover bench`: the program, and a run of it."""
import subprocess

from kit_ranks import BUILD, clean_env

DROVER = BUILD / "bin" / "drover"  # which hands over to drover-bench


def bench(ranks, *args, limit_s=180, **env):
    """As a user types it: it starts its own ranks."""
    return subprocess.run([str(DROVER), "bench", *map(str, args), "-np", str(ranks), "--oversubscribe"],
                          env=clean_env(**env), text=True, capture_output=True, timeout=limit_s, check=False)
