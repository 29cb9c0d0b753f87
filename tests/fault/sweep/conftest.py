"""The nodes of tests/e2e, for the tests of sweeps whose parts are killed."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "e2e"))
from cluster_kit import start_cluster, use_cluster  # noqa: E402,F401  fixtures
