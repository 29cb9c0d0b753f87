"""The nodes of tests/e2e, for tests that kill the processes of a sweep."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "e2e"))
from cluster_kit import start_cluster, use_cluster  # noqa: E402,F401  fixtures
