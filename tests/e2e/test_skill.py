"""What coding agents read (docs/skill.md): the files are whole, they are made from the page and from --help, and the JSON forms are
those of the program. test_pages.py runs the commands of the page."""
import json
import re
import sys

import pytest
from conftest import Runner
from kit_ranks import BUILD, ROOT
from waiting import wait_until

sys.path.insert(0, str(ROOT / "scripts"))
from catalogue import pages  # noqa: E402
from documents import names, tables  # noqa: E402

PAGE = (ROOT / "docs/skill.md").read_text()
FOLDER = BUILD / "share/manual/drover"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
FORMS = [(names(command)[0], names(fields)) for heads, rows in tables(PAGE) if heads[-1] == "fields" for command, _, fields in rows]


@pytest.fixture(scope="module")
def files():
    if not FOLDER.is_dir():
        pytest.skip("a build with a sanitizer has no manual pages")
    return (FOLDER / "skill/SKILL.md").read_text(), (FOLDER / "llms.txt").read_text()


def test_the_skill_has_the_form_that_agents_read_and_the_tasks_of_the_page(files):
    skill = files[0]
    facts = dict(re.findall(r"^(\w+): (.*)$", re.match(r"---\n(.*?)^---\n", skill, re.M | re.S)[1], re.M))
    assert facts["name"] == "drover" and 1 <= len(json.loads(facts["description"])) <= 1024
    tasks = re.findall(r"^### (\d+)\. ", skill, re.M)
    assert tasks == [str(n) for n in range(1, 11)] and len(skill.splitlines()) < 500
    blocks = BLOCK.findall(skill)
    assert len(blocks) == 10 and blocks == BLOCK.findall(PAGE)[1:]
    assert "](" not in skill  # links of docs lead nowhere in an installation
    assert "needs=" not in PAGE


def test_both_files_have_every_command_and_llms_txt_every_option(files):
    skill, llms = files
    assert re.match(r"# drover\n\n(> .+\n)+\n", llms)
    found = pages(BUILD / "bin/drover")
    lines = re.findall(r"^- `(drover .*)", llms.split("Every command with its options")[1], re.M)
    assert len(lines) == len(found) > 20
    for page, line in zip(found, lines):
        assert line.startswith(page.name) and (len(page.path) == 1 or f"| `{page.name}` |" in skill), page.name
        for option in page.options:
            assert "--help" in option["names"] or f"`{' '.join(option['names'])}" in line, (page.name, option["names"])
    linked = re.findall(r"^- \[(\S+)\]\((\S+)\): \w", llms, re.M)
    assert len(linked) >= 4 and all(name == target and ((BUILD / "share/drover" / name).exists() or (FOLDER / name).exists()) for name, target in linked)


def has(value, path):
    """Whether a value, or an element of a list, has a field "trials.state"."""
    if isinstance(value, list):
        return any(has(v, path) for v in value)
    first, _, rest = path.partition(".")
    return isinstance(value, dict) and first in value and (not rest or has(value[first], rest))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with the program and the sweep of the page, after a run, a sweep and while a job runs."""
    at = tmp_path_factory.mktemp("skill") / "work"
    at.mkdir()
    runner = Runner(at)
    for name, text in re.findall(r"^cat >(\S+) <<'END'\n(.*?)^END$", PAGE, re.M | re.S):
        (at / name).write_text(text)
    assert runner.run("run", "-np", 2, "--name", "first", "train.py").returncode == 0
    assert runner.run("sweep", "sweep.yaml").returncode == 0
    job = runner.start("run", "-np", 1, "sleep", "600")
    wait_until(lambda: '"kind":"job"' in runner.run("ps", "--json").stdout, "the job is not listed")
    yield runner
    job.terminate()
    job.communicate()


@pytest.mark.parametrize(("command", "fields"), FORMS, ids=[c for c, _ in FORMS])
def test_a_json_form_is_what_the_command_prints(command, fields, place):
    done = place.run(*command.split()[1:])
    assert done.returncode in ((0, 1) if "doctor" in command else (0,)), done.stderr
    try:
        printed = [json.loads(done.stdout)]
    except json.JSONDecodeError:
        printed = [json.loads(line) for line in done.stdout.splitlines()]
    missing = [f for f in fields if not has(printed, f)]
    assert not missing, f"{missing} in\n{done.stdout[:2000]}"


def test_every_command_with_json_that_agents_need_has_a_form():
    told = {" ".join(c.split()[1:3]) for c, _ in FORMS} | {c.split()[1] for c, _ in FORMS}
    assert {"run", "runs", "ps", "sweep ls", "sweep show", "sweep best", "bench", "doctor", "topo", "top", "estimate"} <= told
