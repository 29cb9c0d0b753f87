"""`drover suggest` from the command line: lines in, lines out, whatever the lines are."""
import json
import math
import os
import subprocess
import sys
import time

import pytest

from conftest import DROVER, ROOT
from waiting import check_time

pytestmark = pytest.mark.skipif(not os.path.exists(DROVER), reason="drover is not built")
SPACE = [{"name": "lr", "type": "float", "low": 1e-4, "high": 0.1, "log": True},
         {"name": "layers", "type": "int", "low": 1, "high": 4},
         {"name": "solver", "type": "cat", "choices": ["adam", "sgd", "lbfgs"]},
         {"name": "momentum", "type": "float", "low": 0.0, "high": 0.9, "when": {"param": "solver", "in": ["sgd"]}}]
INIT = {"op": "init", "space": SPACE, "seed": 3, "method": "random"}
METHODS = ["grid", "random", "sobol", "bayes"]


class Search:
    """One process, spoken to line by line."""

    def __init__(self, **kw):
        self.p = subprocess.Popen([DROVER, "suggest"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **kw)

    def raw(self, line):
        self.p.stdin.write(line)
        self.p.stdin.flush()
        reply = self.p.stdout.readline()
        assert reply.endswith(b"\n"), (line, reply)
        return json.loads(reply)

    def __call__(self, **request):
        return self.raw(json.dumps(request).encode() + b"\n")

    def end(self):
        self.p.stdin.close()
        assert self.p.stdout.read() == b""
        return self.p.wait(20)


@pytest.fixture
def search():
    s = Search()
    yield s
    assert s.end() == 0


def speak(lines, **kw):
    """All lines at once (bytes, each with its newline) -> the replies as they were written."""
    done = subprocess.run([DROVER, "suggest"], input=b"".join(lines), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=120, check=False, **kw)
    assert done.returncode == 0 and done.stderr == b"", (done.returncode, done.stderr[-2000:])
    return done.stdout.splitlines()


def line(**request):
    return json.dumps(request).encode() + b"\n"


# ---- the lines ----------------------------------------------------------------------------------


def test_the_lines_of_the_manual_work_as_they_stand_there():
    text = (ROOT / "docs/drover-suggest.md").read_text()
    lines = [l.split("->") for l in text.splitlines() if l.startswith('    {"op":')]
    assert len(lines) >= 6
    search = Search()
    for request, reply in lines:
        got = search.raw(request.strip().encode() + b"\n")
        want = json.loads(reply)
        assert list(got) == list(want), (request, got)
        if "action" in want or "ok" in want:
            assert got == want, request
    assert search.end() == 0


def test_a_reply_comes_at_once_for_every_line(search):
    assert search(**INIT) == {"ok": True}
    for i in range(20):
        (trial,) = search(op="ask", n=1)["trials"]
        assert trial["id"] == i
        assert search(op="tell", results=[{"id": i, "value": float(i)}]) == {"ok": True}
    assert search(op="best")["best"]["id"] == 0


def test_parameters_are_exactly_the_active_ones_and_within_bounds(search):
    assert search(**INIT) == {"ok": True}
    trials = search(op="ask", n=500)["trials"]
    assert len(trials) == 500
    for t in trials:
        p = t["params"]
        assert set(p) == {"lr", "layers", "solver"} | ({"momentum"} if p["solver"] == "sgd" else set())
        assert 1e-4 <= p["lr"] <= 0.1 and p["layers"] in (1, 2, 3, 4) and isinstance(p["layers"], int)
        assert 0 <= p.get("momentum", 0) <= 0.9
    sgd = sum(t["params"]["solver"] == "sgd" for t in trials)
    assert 120 < sgd < 213  # 500/3 and 4.4 standard deviations


@pytest.mark.parametrize("form", ["list", "mapping"])
def test_only_what_conditions_and_constraints_allow_is_suggested(search, form):
    if form == "list":
        space, when = SPACE, {}
    else:
        space = {"lr": {"distribution": "log_uniform_values", "min": 1e-4, "max": 0.1}, "layers": {"min": 1, "max": 4},
                 "solver": {"values": ["adam", "sgd", "lbfgs"]}, "momentum": {"min": 0.0, "max": 0.9}}
        when = {"when": {"momentum": {"param": "solver", "in": ["sgd"]}}}
    limits = ["layers * lr <= 0.1", "solver != 'adam' or layers >= 3", "momentum < 0.5"]
    assert search(op="init", space=space, method="random", constraints=limits, **when) == {"ok": True}
    seen = set()
    for t in search(op="ask", n=400)["trials"]:
        p = t["params"]
        seen.add(p["solver"])
        assert ("momentum" in p) == (p["solver"] == "sgd")
        assert p["layers"] * p["lr"] <= 0.1 and (p["solver"] != "adam" or p["layers"] >= 3)
        assert p.get("momentum", 0) < 0.5
    assert seen == {"adam", "sgd", "lbfgs"}


def test_python_may_write_nan_and_infinity(search):
    search(**INIT)
    search(op="ask", n=4)
    assert search(op="report", id=3, value=float("nan")) == {"action": "go"}
    assert search(op="tell", results=[{"id": i, "value": v} for i, v in enumerate([math.nan, math.inf, -math.inf])]) == {
        "ok": True}
    assert search(op="best") == {"best": None}
    assert "(failed)" in search(op="tell", results=[{"id": 2, "value": 1}])["error"]
    # Within strings they are letters.
    assert "'NaN\"Infinity'" in search(op="tell", results=[{"id": 3, "value": 1, "state": 'NaN"Infinity'}])["error"]


def test_what_is_no_json_is_an_error_and_nothing_else(search):
    deep = b"[" * 3000 + b"]" * 3000
    for bad in [b"\n", b"   \n", b"{\n", b"ask\n", b'{"op":"ask"} x\n', b"\xff\xfe\n", b'{"op":"\xc3"}\n', b'{"op":"as\0k"}\n',
                b"\0\n", deep + b"\n", b'{"op":"tell","results":[{"id":1e999,"value":1}]}\n',
                b'{"op":"ask","n":99999999999999999999}\n', b'{"op":"ask","op":"ask"}\n', b"NaN\n", b"1NaN\n", b'"\n']:
        assert list(search.raw(bad)) == ["error"], bad
    assert search(**INIT) == {"ok": True}
    assert search.raw(b'{"op":"ask"}\r\n')["trials"][0]["id"] == 0


def test_a_message_that_quotes_long_text_is_still_json(search):
    for word in ["é" * 400, "\U0001f600" * 300, "x" * 5000, "\\\"\x01" * 200]:
        assert "unknown op" in search(op=word)["error"]


def test_a_line_of_more_than_16_mib_is_an_error(search):
    assert search(**INIT) == {"ok": True}
    reply = search.raw(b'{"op":"ask","x":"' + b"y" * (17 << 20) + b'"}\n')
    assert "16 MiB" in reply["error"]
    assert search.raw(b'{"op":"ask"' + b" " * (15 << 20) + b"}\n")["trials"][0]["id"] == 0


def test_the_last_line_needs_no_newline():
    assert speak([line(**INIT), b'{"op":"best"}']) == [b'{"ok":true}', b'{"best":null}']
    assert speak([]) == []


def test_who_stops_listening_ends_it_quietly():
    p = subprocess.Popen([DROVER, "suggest"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdout.close()
    p.stdin.write(line(**INIT))
    p.stdin.flush()
    assert p.wait(20) == 0
    assert p.stderr.read() == b""
    p.stdin.close()
    p.stderr.close()


def test_words_on_the_command_line_are_refused_and_help_is_there(drover):
    done = drover.run("suggest", "sweep.yaml")
    assert done.returncode == 2 and "stdin" in done.stderr and done.stdout == ""
    done = drover.run("help", "suggest")
    assert done.returncode == 0 and "one JSON object per line" in done.stdout


# ---- every method -------------------------------------------------------------------------------

MIXED = [{"name": "k", "type": "int", "low": 1, "high": 4}, {"name": "a", "type": "cat", "choices": ["x", "y", "z"]},
         {"name": "b", "type": "cat", "choices": [True, 2]}]


@pytest.mark.parametrize("method", METHODS)
def test_24_points_and_8_askers_at_once_give_24_trials_and_the_end(search, method):
    assert search(op="init", space=MIXED, method=method, seed=1) == {"ok": True}
    seen = set()
    for _ in range(3):
        asked = [search(op="ask", n=1) for _ in range(8)]
        assert all(set(r) <= {"trials", "note"} and len(r["trials"]) == 1 for r in asked)  # equal values: exploring
        seen |= {json.dumps(r["trials"][0]["params"]) for r in asked}
        search(op="tell", results=[{"id": asked[0]["trials"][0]["id"], "value": 1.0}])
    assert len(seen) == 24
    last = search(op="ask", n=8)
    assert last["trials"] == [] and last["exhausted"] is True


@pytest.mark.parametrize("method", METHODS)
def test_near_the_end_an_ask_gives_fewer(search, method):
    assert search(op="init", space=MIXED, method=method) == {"ok": True}
    assert len(search(op="ask", n=20)["trials"]) == 20
    last = search(op="ask", n=20)
    assert len(last["trials"]) == 4 and last["exhausted"] is True


@pytest.mark.parametrize("method", METHODS)
def test_the_same_lines_get_the_same_replies_byte_for_byte(method, seed):
    lines = [line(**{**INIT, "space": MIXED if method == "grid" else SPACE, "method": method})]
    for i in range(10):
        lines += [line(op="ask", n=2), line(op="report", id=2 * i, step=1, value=seed.random()),
                  line(op="tell", results=[{"id": 2 * i, "value": seed.random()}])]
    threads = {**os.environ, "OPENBLAS_NUM_THREADS": "8", "OMP_NUM_THREADS": "8"}
    assert speak(lines) == speak(lines, env=threads)


# ---- early stopping -----------------------------------------------------------------------------


def test_a_paused_trial_comes_back_as_resume_and_may_be_told_all_the_time(search):
    assert search(op="init", space=SPACE, method="random", early_terminate={"type": "curve", "min_iter": 2, "max_iter": 8}) == {
        "ok": True}
    paused, running, resumed = set(), set(), 0
    for _ in range(300):
        reply = search(op="ask", n=2)
        if "resume" in reply:
            assert len(reply["trials"]) == 1 and reply["resume"] in paused
            paused.discard(reply["resume"])
            running.add(reply["resume"])
            resumed += 1
        else:
            assert len(reply["trials"]) == 2
        running |= {t["id"] for t in reply["trials"]}
        for i in sorted(running):
            action = search(op="report", id=i, value=(i * 7919 % 101 + 1) / 101)["action"]
            if action != "go":
                running.discard(i)
            if action == "pause":
                paused.add(i)
                assert "is paused" in search(op="report", id=i, value=0.1)["error"]
            elif action == "stop":
                assert search(op="tell", results=[{"id": i, "state": "pruned"}]) == {"ok": True}
        if resumed > 5:
            break
    assert resumed > 5 and paused
    assert search(op="tell", results=[{"id": paused.pop(), "state": "failed"}]) == {"ok": True}


# ---- torture ------------------------------------------------------------------------------------


def valid_line(r, asked):
    """A request that makes sense after `asked` trials."""
    i = r.randrange(max(asked, 1))
    return r.choice([
        lambda: line(op="ask", n=r.randint(1, 3)),
        lambda: line(op="tell", results=[{"id": i, "value": r.choice([r.random(), "nan", 10 ** r.randint(-300, 300)])}]),
        lambda: line(op="tell", results=[{"id": i, "state": r.choice(["failed", "oom", "done"])}, {"id": i + 1, "value": 2}]),
        lambda: line(op="tell", results=[{"id": i, "state": "pruned", "value": r.random(), "step": r.randint(0, 9)}]),
        lambda: line(op="tell", results=[{"params": {"lr": 0.01, "layers": 2, "solver": "adam"}, "value": r.random()}]),
        lambda: line(op="report", id=i, step=r.randint(0, 9), value=r.random()),
        lambda: line(op="report", id=i, value=r.random()),
        lambda: line(op="best"),
    ])()


def mutated(r, text):
    """Bytes dropped, doubled, changed or swapped, or a word of JSON in place of another; no newline in it."""
    b = bytearray(text.rstrip(b"\n"))
    for _ in range(r.choice([1, 1, 1, 2, 5])):
        at = r.randrange(len(b) + 1)
        kind = r.randrange(5)
        if kind == 0:
            del b[at:at + r.randint(1, 4)]
        elif kind == 1:
            b[at:at] = bytes([r.randrange(256)])
        elif kind == 2:
            b[at:at] = b[r.randrange(len(b) + 1):][:8]
        elif kind == 3:
            b[at:at + 1] = r.choice([b"null", b"-1", b"1e308", b'"', b"{}", b"[]", b"true", b"NaN", b"-Infinity", b"0.5", b'"id":0,', b"\\u0000"])
        else:
            b[at:at + 1] = bytes([r.choice(b'{}[]:,"0123456789eE.-')])
    return bytes(b).replace(b"\n", b" ") + b"\n"


@pytest.mark.parametrize("method, count, stop", [("random", 7000, None), ("sobol", 7000, {"type": "median", "min_trials": 1}),
                                                 ("random", 7000, {"type": "curve", "max_iter": 9}), ("bayes", 300, {"type": "curve"})])
def test_20000_mutated_lines_get_one_reply_each_and_errors_change_nothing(seed, method, count, stop):
    extra = {"early_terminate": stop} if stop else {}
    lines = [line(**{**INIT, "method": method}, **extra)]
    for k in range(count):
        good = valid_line(seed, k // 2)
        lines.append(good if seed.random() < 0.4 else mutated(seed, good))
    replies = speak(lines)
    assert len(replies) == len(lines)
    parsed = [json.loads(x) for x in replies]
    assert all(list(p) == ["error"] or "error" not in p for p in parsed)
    fine = [k for k, p in enumerate(parsed) if "error" not in p]
    assert count / 15 < len(fine) < count / 2, len(fine)  # else nothing was tried
    assert speak([lines[k] for k in fine]) == [replies[k] for k in fine]


def test_mutated_inits_are_refused_or_taken_and_the_next_lines_work(seed):
    full = {"op": "init", "space": SPACE, "seed": 0, "budget": 10, "batch": 2, "goal": "maximize", "method": "random", "repeats": 2,
            "constraints": ["layers * lr < 0.2", "solver == 'sgd' or layers > 1"], "early_terminate": {"type": "hyperband", "min_iter": 3}}
    taken = 0
    for _ in range(40):
        lines = [mutated(seed, line(**full)) for _ in range(50)] + [line(**full), line(op="ask")]
        replies = [json.loads(x) for x in speak(lines)]
        assert len(replies) == len(lines)
        taken += "error" in replies[-2]
        assert list(replies[-1]) == ["trials"], replies[-1]
    print(taken, "of 40 took a mutated init")


def test_a_hundred_thousand_tells_take_less_than_5_s_and_400_mib(seed, tmp_path):
    names = [f"x{i}" for i in range(6)]
    lines = [line(op="init", space=[{"name": n, "type": "float", "low": 0, "high": 1} for n in names], method="random")]
    for _ in range(100):
        lines += [line(op="tell", results=[{"params": {n: seed.random() for n in names}, "value": seed.random()}])
                  for _ in range(1000)]
    lines += [line(op="ask"), line(op="best")]
    (tmp_path / "in").write_bytes(b"".join(lines))
    with open(tmp_path / "in") as requests, open(tmp_path / "out", "wb") as out:
        t0 = time.monotonic()
        p = subprocess.Popen([DROVER, "suggest"], stdin=requests, stdout=out)
        _, status, used = os.wait4(p.pid, 0)
        took, p.returncode = time.monotonic() - t0, status
    replies = (tmp_path / "out").read_bytes().splitlines()
    assert status == 0 and len(replies) == len(lines)
    assert replies[-3] == b'{"ok":true,"ids":[99999]}' and len(json.loads(replies[-2])["trials"]) == 1
    assert json.loads(replies[-1])["best"]["value"] < 0.001
    if "san-" not in DROVER:
        check_time(used.ru_utime + used.ru_stime < 5 and took < 15, took)
        assert used.ru_maxrss < 400 << 10


# ---- the example --------------------------------------------------------------------------------


def test_the_example_finds_a_good_trial():
    done = subprocess.run([sys.executable, str(ROOT / "examples/suggest/search.py"), DROVER], text=True, timeout=60, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    best = json.loads(done.stdout)
    assert set(best) == {"id", "params", "value"} and best["value"] < 2, best  # a random trial is worth 5


def test_nobody_teaches_printf_to_write_quads_which_would_make_it_slow():
    said = subprocess.run([DROVER, "suggest", "--help"], env=dict(os.environ, LD_DEBUG="bindings"), stderr=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, text=True, check=True).stderr
    for line in said.splitlines():
        if "libquadmath" in line and "`register_printf_type'" in line:
            assert "libc.so" not in line.partition(" to ")[2], line
