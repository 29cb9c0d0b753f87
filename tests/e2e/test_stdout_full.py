"""Results on a full disk: every command says that its output is lost, and does not end with 0."""
import importlib.machinery
import importlib.util
import subprocess
from pathlib import Path

import pytest
from sweep_kit import BUILD, DROVER, Place

SERVES = (BUILD / "libexec/drover/drover-serve").exists()


def catalogue():
    path = Path(__file__).resolve().parents[2] / "scripts/catalogue.py"
    spec = importlib.util.spec_from_loader("catalogue", importlib.machinery.SourceFileLoader("catalogue", str(path)))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lost(place, *words):
    """What the command says with a full disk as its stdout."""
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([DROVER, *words], cwd=place.path, env=place.env, stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode != 0, words
    assert done.stderr.count("No space left") <= 1, (words, done.stderr)
    assert "No space left" in done.stderr or "could not be written" in done.stderr, (words, done.stderr)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    p = Place(tmp_path_factory.mktemp("full"))
    p.script("t.sh", 'echo "{\\"loss\\": $x}"\n')
    assert p.run(p.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1, 2]}}\n"), "-q").returncode == 0
    yield p
    p.clean_up()


def test_every_page_of_help(place):
    pages = catalogue().pages(str(DROVER))
    assert len(pages) > 30
    for page in pages:
        lost(place, *page.path[1:], "--help")
    lost(place, "--help")
    lost(place, "--version")
    lost(place, "version")


@pytest.mark.parametrize("words", [
    "sweep show s", "sweep show s --csv", "sweep show s --json", "sweep show s 0", "sweep show s 0 --json", "sweep ls", "sweep ls --json",
    "sweep best s", "sweep logs s 0", "sweep s.yaml --name q --dry-run", "export s --csv -", "topo", "topo --json", "estimate --params 7B",
    "doctor", "run -np 1 --dry-run true", "run -np 1 echo text", "run -np 1 seq 20000",
    "bench all_reduce -np 1 -b 8 -e 8", "bench all_reduce -np 1 -b 8 -e 8 --json",
])
def test_the_results_of_commands(place, words):
    lost(place, *words.split())


@pytest.mark.parametrize("words", ["sweep s.yaml --name r", "suggest --help"])
def test_a_reader_that_leaves_is_no_full_disk(place, words):
    """As `| head`: the result is that of the command, or it is ended by SIGPIPE; nothing is said of a disk."""
    with subprocess.Popen([DROVER, *words.split()], cwd=place.path, env=place.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as p:
        p.stdout.close()
        said = p.stderr.read()
        assert p.wait(60) in ((0,) if words.startswith("sweep") else (0, -13, 141)), said
    assert "stdout" not in said


@pytest.mark.skipif(not SERVES, reason="drover-serve is not built")
def test_the_address_of_the_page_is_a_result(place):
    lost(place, "serve", "s", "--listen", "127.0.0.1:0")
