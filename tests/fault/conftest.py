"""The fixtures of tests/e2e, for the tests of faults."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from waiting import use_seed  # noqa: E402,F401  a fixture
