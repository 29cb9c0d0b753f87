"""The shell blocks of README and docs run as they stand: the blocks of a page in their order, in one shell and a directory of
its own. A block that cannot run here says why after its mark: ```sh needs=gpu. The lines of a block of text that follows appear
in the output; numbers may differ, and … stands for anything."""
import contextlib
import os
import re
import signal
import subprocess
from collections import Counter

import pytest
from kit_ranks import BUILD, ROOT, clean_env

PAGES = sorted(p for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if "measurements" not in p.parts)
NEEDS = {"gpu": "a GPU", "nodes": "several nodes", "slurm": "Slurm", "kubernetes": "a cluster", "docker": "Docker", "root": "root and apt",
         "time": "minutes", "network": "the Internet", "terminal": "a terminal", "names": "names of yours"}
NOT_RUN_MAX = 60
LANGUAGES = {"", "sh", "c", "python", "yaml", "json", "text"}
LIMIT_S = 60
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)


def blocks(page):
    """(line, language, what it needs or "", text) of each fenced block."""
    text = page.read_text()
    for m in FENCE.finditer(text):
        words = m[1].split()
        needs = [w.removeprefix("needs=") for w in words[1:]]
        yield text.count("\n", 0, m.start()) + 1, words[0] if words else "", " ".join(needs), m[2]


def expected(page):
    """{line of a block of commands: the text that follows it}."""
    found = list(blocks(page))
    return {line: after[3] for (line, language, _, text), after in zip(found, found[1:])
            if (language, after[1]) == ("sh", "text") and after[0] == line + text.count("\n") + 3}


def as_pattern(line):
    number = r"\d[\d.,]*(?:e[-+]?\d+)?"
    parts = re.split(rf"(\s*…|\s+|{number})", line.strip())
    return re.compile("".join(".*" if "…" in p else r"\s+" if p.isspace() else number if p[:1].isdigit() else re.escape(p) for p in parts))


def shell(page):
    return [(line, text) for line, language, needs, text in blocks(page) if language == "sh" and not needs]


def test_every_block_has_a_language_and_a_reason_that_are_known():
    for page in PAGES:
        for line, language, needs, _ in blocks(page):
            where = f"{page.relative_to(ROOT)}:{line}"
            assert language in LANGUAGES, f"{where}: '{language}'; a block of shell commands is ```sh"
            assert not needs or language == "sh" and needs in NEEDS, f"{where}: needs={needs}"


def anchors(page):
    """The names of a page's headings, as GitHub and GitLab make them."""
    text = FENCE.sub("", page.read_text())
    found = Counter()
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        found[slug] += 1
        yield f"{slug}-{found[slug] - 1}" if found[slug] > 1 else slug


def test_every_link_leads_to_a_page_and_a_heading():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text())):
            path, _, heading = target.partition("#")
            if "://" in target:
                continue
            to = (page.parent / path).resolve() if path else page
            assert to.exists(), f"{page.relative_to(ROOT)}: {target}: no such file"
            if heading:
                assert heading in set(anchors(to)), f"{page.relative_to(ROOT)}: {target}: no such heading"


def test_the_blocks_that_cannot_run_here_are_few(capsys):
    reasons = Counter(needs for page in PAGES for _, language, needs, _ in blocks(page) if language == "sh" and needs)
    run = sum(len(shell(page)) for page in PAGES)
    with capsys.disabled():
        print(f"\n# {run} blocks run; " + ", ".join(f"{n} need {NEEDS[why]}" for why, n in sorted(reasons.items())))
    assert run >= 20 and reasons.total() <= NOT_RUN_MAX and reasons.total() < 2 * run


@pytest.fixture
def place(tmp_path):
    """A user's directory: the examples and scripts of the source, drover in PATH, and a make that only says what it would do."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    make = bin_ / "make"
    flags = BUILD / "flags"  # with others, everything would be built anew
    strict = "WERROR=1" if flags.exists() and "-Werror" in flags.read_text().split() else ""
    make.write_text(f'#!/bin/sh\nexec /usr/bin/make -n -C {ROOT} {strict} "$@" >/dev/null\n')
    make.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    (work / "build").mkdir()
    for name, target in (("examples", ROOT / "examples"), ("scripts", ROOT / "scripts"), ("build/dev", BUILD)):
        (work / name).symlink_to(target)
    return work, clean_env(PATH=f"{bin_}:{BUILD}/bin:/usr/bin:/bin:/usr/sbin:/sbin", HOME=str(tmp_path), XDG_RUNTIME_DIR=str(tmp_path),
                           LD_LIBRARY_PATH=f"{BUILD}/lib", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def kill(group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def marked(parts):
    """A script that names each block before it begins, and ends at the first command that fails."""
    return "set -e\n" + "".join(f"echo '# block of line {line}' >&2\n{text}" for line, text in parts)


@pytest.mark.parametrize("page", [p for p in PAGES if shell(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_the_shell_blocks_of_a_page_run(page, place):
    work, env = place
    with subprocess.Popen(["bash", "-c", marked(shell(page))], cwd=work, env=env, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as p:
        try:
            out, _ = p.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            kill(p.pid)
            pytest.fail(f"no end after {LIMIT_S} s:\n{p.communicate()[0][-3000:]}")
        finally:
            kill(p.pid)  # what a block that failed has left in the background
    assert p.returncode == 0, out[-3000:]
    outputs = dict((int(line), text) for line, text in re.findall(r"^# block of line (\d+)\n(.*?)(?=^# block of line |\Z)", out, re.M | re.S))
    for line, text in expected(page).items():
        if line in outputs:
            for wanted in filter(str.strip, text.splitlines()):
                shown = [s for s in outputs[line].splitlines() if as_pattern(wanted).fullmatch(s.strip())]
                assert shown, f"{page.relative_to(ROOT)}:{line}: no line like\n  {wanted}\nin\n{outputs[line]}"
