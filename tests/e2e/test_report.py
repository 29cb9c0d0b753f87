"""`drover report` and `--report` of run and bench: one file that loads nothing. In Chromium with and without scripts, of a
hostile sweep, without names, at 50,000 trials, as Markdown, and what happens if it cannot be written."""
import base64
import gzip
import html
import json
import os
import random
import re
import socket
import struct
import subprocess
from pathlib import Path

import pytest
from serve_kit import SERVE
from sweep_kit import DROVER, Place

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build/playwright/bin/python"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
D3 = Path("/usr/share/nodejs/d3/dist/d3.min.js")
in_chromium = pytest.mark.skipif(not (Path(CHROMIUM).exists() and PYTHON.exists() and D3.exists()),
                                 reason="Chromium, playwright or node-d3 is not installed (scripts/setup --test)")
pytestmark = pytest.mark.skipif(not SERVE.exists(), reason="drover-serve is not built")
# Everything that a user can name tries to become markup, to end a script, or to tell who and where.
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
SWEEP = {
    "program": "f.py", "command": ["/usr/bin/python3", "f.py", "${args}"], "method": "bayes", "run_cap": 20,
    "description": EVIL, "metric": {"name": "loss"},
    "parameters": {"lr": {"distribution": "log_uniform_values", "min": 0.001, "max": 1.0}, "beta": {"min": 0.0, "max": 1.0},
                   "kind": {"values": ["a", EVIL, "x\"'`|\u0001\u202e"]}, "data": {"value": "/home/alicetester/data.bin"},
                   "seed": {"values": [1, 2]}},
    "drover": {"give_up_after": 0, "repeats": 2, "start": [{"lr": 0.01, "beta": 0.25, "kind": "a", "seed": s} for s in (1, 2)]}
}
TRIAL = """
import json, math, os, sys
a = dict(x[2:].split("=", 1) for x in sys.argv[1:])
if os.environ["DROVER_TRIAL_ID"] == "7":
    sys.exit("</script><script>alert(3)</script> gpu-17.cluster.example.com 10.1.2.3 alicetester /home/alicetester/x\\x1b\\x01")
loss = abs(math.log10(float(a["lr"])) + 2) + float(a["beta"]) + int(a["seed"]) / 100
for step in range(1, 5):
    print(json.dumps({"step": step, "loss": loss + 1 / step, "<script>alert(4)</script>": 10 - loss}), flush=True)
"""


def report(place, *args, program="report"):
    return subprocess.run([DROVER, program, *args], cwd=place.path, env=place.env, text=True, capture_output=True, timeout=60)


def written(place, name, *args):
    done = report(place, *args, "-o", name)
    assert done.returncode == 0, done.stderr
    return (place.path / name).read_text()


def answers(text):
    """What the file contains for its pages."""
    return {k: gzip.decompress(base64.b64decode(v)) for k, v in re.findall(r'data-answer="([^"]+)">([^<]*)</script>', text)}


def texts_of(name, body):
    """The overview is JSON; other answers have a header of JSON, then numbers."""
    return body.decode() if name == "overview" else body[4:4 + struct.unpack_from("<I", body)[0]].decode()


def words(text):
    """All texts of the file, but not its program."""
    said = re.sub(r"<script nonce=.*?</script>", "", text, flags=re.S)
    return html.unescape(re.sub(r'data-answer="[^"]+">[^<]*', "", said)) + "".join(texts_of(*a) for a in answers(text).items())


class Browser:
    def __init__(self, place, path, *options):
        self.process = subprocess.Popen([PYTHON, ROOT / "tests/e2e/page_driver.py", path.as_uri(), *options], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.env)
        place.started.append(self.process)
        self("goto", hash="")

    def __call__(self, do, **step):
        self.process.stdin.write(json.dumps({"do": do, **step}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert "failed" not in answer, (do, step, answer["failed"])
        return answer.get("value")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    p = Place(tmp_path_factory.mktemp("report"))
    p.env["USER"] = "alicetester"
    (p.path / "f.py").write_text(TRIAL)
    (p.path / "evil.yaml").write_text(json.dumps(SWEEP))
    done = p.run("evil.yaml", "-q")
    assert done.returncode == 0, done.stderr
    yield p
    p.clean_up()




def test_the_report_has_the_question_the_best_trial_and_its_command(place):
    text = words(written(place, "evil.html", "evil"))
    shown = place.run("show", "evil", "--json")
    least = json.loads(shown.stdout)["best"]
    command = place.run("best", "evil", "--command").stdout
    assert f"{least['id']} (done)" in text and f"{least['value']:.6g}" in text
    assert command.split(" -- ")[0] in text and "--data=/home/alicetester/data.bin" in text
    for part in ("Question", "log_uniform_values", "Repeated seeds", " ± ", "Importance", "Cost", "Failures", "exit status 1",
                 "Machines and versions", socket.gethostname(), "drover sweep evil.yaml --name evil-again --seed 0"):
        assert part in text, part


@in_chromium
def test_chromium_shows_every_view_from_the_file_alone(place):
    written(place, "page.html", "evil")
    b = Browser(place, place.path / "page.html")
    b("wait", js="() => document.querySelector('#pages .big')")
    for view in "parallel slices curves pareto timeline table overview".split():
        b("click", on=f"[data-view={view}]")
        b("wait", js="() => document.querySelector('#pages canvas, #pages tbody tr')")
    least = json.loads(place.run("show", "evil", "--json").stdout)["best"]
    assert b("eval", js="drover.study.n") == 20 and b("eval", js="drover.study.best") == least["id"]
    assert abs(b("eval", js="drover.study.get('value')[drover.study.best]") - least["value"]) < 1e-6
    assert b("visible", on="#pages > p") == 0 and b("visible", on="#pages .command code") == 1
    b("click", on="[data-view=slices]")
    b("wait", js="() => /the model's expectation/.test(document.querySelector('#pages').innerText)")
    b("eval", js="drover.openTrial(7)")
    assert b("eval", js="document.querySelector('#panel').innerText.includes('alert(3)')")
    assert b("faults") == []


@in_chromium
def test_without_scripts_the_tables_are_there_and_a_sentence_for_the_plots(place):
    written(place, "still.html", "evil")
    b = Browser(place, place.path / "still.html", "--no-scripts")
    assert b("visible", on="#pages > p") == 1 and b("visible", on="#pages canvas, #pages svg") == 0
    assert b("visible", on=".said table") >= 7
    assert b("faults") == []


def test_texts_of_a_hostile_sweep_stay_texts(place):
    text = written(place, "hostile.html", "evil")
    said = re.sub(r"<script nonce=.*?</script>", "", text, flags=re.S)
    said = re.sub(r'<script type="application/gzip" data-answer="[\w ]+">[A-Za-z0-9+/=]*</script>', "", said)
    assert not re.search(r"<script|<img|onerror=(?!alert)", said)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", text)
    assert "default-src 'none'" in text and not re.search(r"(src|href)=[\"']?(https?:|//)", said)
    markdown = written(place, "hostile.md", "evil")
    outside = re.sub(r"^(`{3,})text\n.*?^\1$", "", markdown, flags=re.S | re.M)
    assert not re.search(r"(?<!\\)<", outside)


def test_an_anonymous_report_names_no_host_user_path_or_address(place):
    for name in ("anonymous.html", "anonymous.md"):
        text = written(place, name, "evil", "--anonymous")
        text = words(text) if name.endswith("html") else text
        for part in (rf"\b{re.escape(socket.gethostname())}\b", "alicetester", "gpu-17", "example", r"10\.1\.2\.3", "/home", "/usr/bin",
                     re.escape(str(place.path))):
            assert not re.search(part, text, re.I), (name, part, text[max(0, re.search(part, text, re.I).start() - 80):][:200])
        assert "host-1" in text and "path-1" in text


def test_markdown_has_tables(place):
    text = written(place, "r.md", "evil")
    tables = [t.splitlines() for t in re.findall(r"(?:^\|.*\n)+", text, re.M)]
    assert len(tables) >= 7
    for t in tables:
        columns = {len(re.findall(r"(?<!\\)\|", line)) for line in t}
        assert len(columns) == 1 and re.fullmatch(r"\|( -+:? \|)+", t[1]), t


def test_50_000_trials_fit_in_3_mb(place):
    rng = random.Random(1)
    rows = (f"{rng.random()},{rng.uniform(1, 99)},{10 ** rng.uniform(-5, -1)},{10 ** rng.uniform(-6, -2)},{rng.random()},{rng.random()},"
            f"{rng.randint(1, 12)},{rng.choice('ab')},{rng.choice('abc')},{rng.choice([16, 32, 64])}\n" for _ in range(50000))
    (place.path / "big.csv").write_text("loss,seconds,lr,wd,dropout,momentum,layers,opt,act,batch\n" + "".join(rows))
    done = report(place, "--csv", "big.csv", "--metric", "loss", "--params", "lr,wd,dropout,momentum,layers,opt,act,batch", program="import")
    assert done.returncode == 0, done.stderr
    text = written(place, "big.html", "big")
    assert (place.path / "big.html").stat().st_size < 3_000_000
    if D3.exists():
        assert len(answers(text)["columns"]) > 50000 * 8


def test_errors(place):
    unknown = report(place, "evli")
    assert unknown.returncode == 2 and "evil" in unknown.stderr
    ending = report(place, "evil", "-o", "r.pdf")
    assert ending.returncode == 2 and "ends with .html or .md" in ending.stderr
    missing = report(place, "evil", "-o", "none/r.html")
    assert missing.returncode == 1 and "none/r.html: No such file or directory" in missing.stderr
    kept = place.path / "kept.md"
    kept.mkdir()
    assert report(place, "evil", "-o", "kept.md").returncode == 1
    assert not list(place.path.glob("*.tmp"))


def test_a_sweep_without_trials_has_a_report(place):
    (place.path / "empty.yaml").write_text(json.dumps({**SWEEP, "command": ["true"], "run_cap": 2}))
    place.run("empty.yaml", "-q")
    text = written(place, "empty.md", "empty")
    assert "No trial has a value." in text and "Plots" not in text and "| 2 | invalid |" in text


def test_run_and_bench_write_reports_in_the_same_frame(place):
    run = report(place, "-np", "2", "--oversubscribe", "--report", "run.html", "sh", "-c", "[ $RANK = 0 ] || exit 3 '<script>'", program="run")
    assert run.returncode == 3, run.stderr
    text = words((place.path / "run.html").read_text())
    assert "First failure" in text and "rank 1" in text and "exited with status 3" in text and "2 on 1 node" in text
    bench = report(place, "all_reduce", "--backend", "self", "-np", "1", "-b", "1K", "-e", "4K", "-f", "2", "-n", "1", "--verdict", "--report", "b.md", program="bench")
    assert bench.returncode == 0, bench.stderr
    text = (place.path / "b.md").read_text()
    assert "## Verdict" in text and "| 4 KiB | float | sum |" in text and "busbw GB/s" in text
    for command in (["run", "-np", "1", "--report", "r.txt", "true"], ["bench", "all_reduce", "--report", "r.txt"]):
        wrong = report(place, *command[1:], program=command[0])
        assert wrong.returncode == 2 and "--report: 'r.txt'" in wrong.stderr
