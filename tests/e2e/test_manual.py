"""Manual pages and completion are made from the rows of options, so they cannot differ from --help: scripts/manual."""
import re
import shutil
import subprocess
import sys

import pytest
from kit_ranks import BUILD, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from catalogue import pages  # noqa: E402
from documents import manual_of, names, tables  # noqa: E402

DROVER = BUILD / "bin/drover"
MANUAL = BUILD / "share/manual"
PAGES = pages(DROVER)
IDS = [p.name for p in PAGES]
ALL_OPTIONS = {"drover run": "--help-all"}


def run(*argv, **kw):
    return subprocess.run([str(a) for a in argv], text=True, capture_output=True, timeout=60, check=False, **kw)


@pytest.fixture(scope="module", autouse=True)
def manual():
    if not MANUAL.is_dir():
        pytest.skip("a build with a sanitizer has no manual pages")


def file_of(page):
    return MANUAL / "man/man1" / f"{'-'.join(page.path)}.1"


def test_every_command_of_the_program_and_no_other_has_a_page():
    listed = re.findall(r"^  ([a-z_]+) {2,}\S", run(DROVER, "help").stdout, re.M)
    assert set(listed) - {"help"} == {p.path[1] for p in PAGES if len(p.path) == 2} and len(listed) > 10
    assert {f.name for f in (MANUAL / "man/man1").iterdir()} == {file_of(p).name for p in PAGES}
    assert {"drover sweep show", "drover bench diff"} <= set(IDS)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_a_page_is_rendered_without_warnings_and_has_all_options(page):
    if not shutil.which("man"):
        pytest.skip("man is not installed")
    done = run("man", "--warnings", "--no-hyphenation", "--no-justification", "-l", file_of(page),
               env={"MANWIDTH": "200", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0 and done.stderr == ""
    text = re.sub(r"\x1b\[\d*m|.\x08", "", done.stdout)
    shown = re.findall(r"^  (?:-\w, |    )?(-\S.*?)(?:  .*)?$", run(DROVER, *page.path[1:], ALL_OPTIONS.get(page.name, "--help")).stdout, re.M)
    assert len(shown) == len(page.options)
    for label in shown:
        assert re.search(rf"(^ {{7}}|, ){re.escape(label)}( |$)", text, re.M), label
    for option in page.options:
        if "min" in option and option["min"] >= 1:
            assert re.search(rf"(From|At least) {option['min']:g}\b", text), option


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_a_page_says_how_its_command_ends_what_it_reads_and_its_files(page):
    sections = dict(re.findall(r"^\.SH ([A-Z ]+)\n(.*?)(?=^\.SH |\Z)", file_of(page).read_text(), re.M | re.S))
    order = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES"]
    assert list(sections)[:7] == order
    statuses = re.findall(r"^\\fB(.*?)\\fR$", sections["EXIT STATUS"], re.M)
    assert {"0", "2"} <= set(statuses) and "DROVER_LOG" in sections["ENVIRONMENT"]
    assert run(DROVER, *page.path[1:], "--no-such-option").returncode == 2


def test_pages_have_the_rows_of_their_own_command():
    def rows(command, section):
        return re.findall(r"\\fB(.*?)\\fR", (MANUAL / f"man/man1/{command}.1").read_text().split(f".SH {section}\n")[1].split("\n.SH ")[0])
    assert "124" in rows("drover-run", "EXIT STATUS") and "128+n" in rows("drover-sweep-resume", "EXIT STATUS")
    assert "124" not in rows("drover-sweep-stop", "EXIT STATUS")
    assert {"DROVER_JOB_ID", "LOCAL_RANK", "SLURM_*"} <= set(rows("drover-run", "ENVIRONMENT"))
    assert "DROVER_SWEEP_KEY" in rows("drover-worker", "ENVIRONMENT") and "DROVER_SWEEP_KEY" not in rows("drover-run", "ENVIRONMENT")
    assert "sweeps/NAME/sweep.db" in rows("drover-sweep-show", "FILES") and r"\(ti/.local/state/drover/runs/ID.db" in rows("drover-runs", "FILES")


OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")
DOCUMENTS = {manual_of(p.path): [q for q in PAGES[1:] if manual_of(q.path) == manual_of(p.path)] for p in PAGES[1:] if manual_of(p.path)}


@pytest.mark.parametrize("text", DOCUMENTS, ids=[t.split("\n")[0] for t in DOCUMENTS])
def test_the_tables_of_options_of_a_document_are_those_of_the_program(text):
    """Long names may have one dash or two, and `-` or `_`."""
    rows = {n for page in DOCUMENTS[text] for o in page.options for n in o["names"]}
    told = {o for heads, cells in tables(text) if heads[0] == "option" for row in cells for n in names(row[0]) for o in OPTION.findall(n)}
    for option in told - rows:  # another name of an option, which --help leaves out
        answers = [run(DROVER, *page.path[1:], option, "1", "--help") for page in DOCUMENTS[text]]
        assert any(a.returncode == 0 for a in answers), (option, answers[0].stderr)
    words = {n.lstrip("-").replace("_", "-") for n in OPTION.findall(text)}
    untold = [o["names"] for page in DOCUMENTS[text] for o in page.options
              if o["names"][-1] != "--help" and not words & {n.lstrip("-").replace("_", "-") for n in o["names"]}]
    assert not untold, f"{text.splitlines()[0]} has no word about {untold}"


def test_help_of_run_shows_what_most_jobs_need_and_says_where_the_rest_is():
    short, whole = (run(DROVER, "run", word).stdout for word in ("--help", "--help-all"))
    options = [set(re.findall(r"^  (?:-\w, |    )?(--?[\w-]+)", text, re.M)) for text in (short, whole)]
    assert 20 <= len(options[0]) <= 26 and options[0] < options[1]
    assert len(short.splitlines()) <= 66
    assert f"\n{len(options[1]) - len(options[0])} further options: drover run --help-all\n" in short and "further options" not in whole


def test_mandoc_finds_nothing_to_warn_of():
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    done = run("mandoc", "-Tlint", "-Wwarning", *(file_of(p) for p in PAGES))
    assert done.returncode == 0 and done.stdout == ""


LISTED = [(p, o) for p in PAGES for o in p.options if re.fullmatch(r"[a-z0-9]+(\|[a-z0-9]+)+", o.get("arg") or "")]


def test_the_values_that_a_row_lists_are_accepted():
    """--help ends the reading of a line, after the options before it."""
    assert len(LISTED) >= 6
    for page, option in LISTED:
        for value in option["arg"].split("|"):
            done = run(DROVER, *page.path[1:], option["names"][-1], value, "--help")
            assert done.returncode == 0, f"{page.name} {option['names'][-1]} {value}: {done.stderr}"


BASH = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _drover; printf '%s\\n' "${COMPREPLY[@]}" """


def completed(*words, cwd=None):
    """What bash offers for the last word."""
    done = run("bash", "-c", BASH, "bash", MANUAL / "bash-completion/completions/drover", *words, cwd=cwd)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(tmp_path):
    (tmp_path / "hosts").touch()
    (tmp_path / "folder").mkdir()
    assert completed("drover", "sw", cwd=tmp_path) == ["sweep"]
    assert {"ls", "show", "best"} <= set(completed("drover", "sweep", ""))
    assert completed("drover", "bench", "all_r") == ["all_reduce"]
    assert completed("drover", "run", "--over") == ["--oversubscribe"]
    assert completed("drover", "run", "--tag", "") == ["host", "rank", "mpirun", "none"]
    assert completed("drover", "run", "-tag", "m") == ["mpirun"]
    assert completed("drover", "run", "--tag", "=", "m") == ["mpirun"]
    assert completed("drover", "run", "--hostfile", "ho", cwd=tmp_path) == ["hosts"]
    assert completed("drover", "run", "--wdir", "", cwd=tmp_path) == ["folder"]
    assert "--csv" in completed("drover", "sweep", "show", "--c")
    assert completed("drover", "sweep", "--par") == ["--parallel"]


def test_bash_leaves_the_words_of_a_users_program_alone(tmp_path):
    (tmp_path / "data").touch()
    assert completed("drover", "run", "-np", "2", "./train", "--over", cwd=tmp_path) == []
    assert completed("drover", "run", "--mca", "btl", "self", "./train", "da", cwd=tmp_path) == ["data"]
    assert completed("drover", "run", "--mca", "btl", "--over") == []


def test_bash_offers_every_option_of_every_command():
    for page in PAGES:
        names = {n for o in page.options for n in o["names"]}
        assert names <= set(completed(*page.path, "-")), page.name


def test_zsh_reads_its_completion():
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")
    done = run("zsh", "-n", MANUAL / "zsh/site-functions/_drover")
    assert done.returncode == 0 and done.stderr == ""


def test_fish_completes_options_and_values():
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")
    ask = f"source {MANUAL}/fish/vendor_completions.d/drover.fish; complete -C $argv[1]"

    def offered(line):
        done = run("fish", "--no-config", "-c", ask, line)
        assert done.stderr == ""
        return [row.split("\t")[0] for row in done.stdout.splitlines()]

    assert {"host", "rank", "mpirun", "none"} <= set(offered("drover run --tag "))
    assert "--oversubscribe" in offered("drover run --over")
    assert {"show", "best"} <= set(offered("drover sweep "))
    assert "--csv" in offered("drover sweep show --c")


def test_bash_completes_the_names_of_sweeps(tmp_path):
    for name in "sweeps/mine", "sweeps/yours", "elsewhere/other":
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "sweep.db").touch()
    (tmp_path / "sweeps/no_sweep").mkdir()
    (tmp_path / "mine.yaml").touch()
    named = [["sweep", c] for c in ("show", "best", "logs", "stop", "cancel", "pause", "resume", "retry", "add", "rm")]
    for command in [*named, ["report"], ["export"]]:
        assert completed("drover", *command, "", cwd=tmp_path) == ["mine", "yours"], command
    assert completed("drover", "sweep", "show", "--top", "3", "m", cwd=tmp_path) == ["mine"]
    assert completed("drover", "sweep", "show", "--dir", "elsewhere", "", cwd=tmp_path) == ["other"]
    assert completed("drover", "sweep", "show", "--dir", "=", "elsewhere", "", cwd=tmp_path) == ["other"]
    assert completed("drover", "sweep", "show", "mine", "", cwd=tmp_path) == []
    assert completed("drover", "sweep", "mi", cwd=tmp_path) == ["mine.yaml"]
