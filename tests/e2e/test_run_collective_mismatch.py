"""Collectives that do not fit together: `drover run` names who is missing or calls another one, when --hang-timeout is over
or when a rank's own deadline (drover_wait) is."""
import json
import os
import re
import select
import shutil
import socket
import threading
import time

import pytest
from kit_ranks import build_client_programs
from waiting import SILENCES_S, at_best

if not shutil.which("mpirun"):
    pytest.skip("Open MPI is not installed", allow_module_level=True)

NODE = re.escape(os.uname().nodename)
RUN = ["run", "-np", "4", "--oversubscribe", "-x", "ASAN_OPTIONS=detect_leaks=0"]  # Open MPI leaves memory behind


@pytest.fixture(scope="module", name="stuck")
def build_stuck(tmp_path_factory):
    return build_client_programs(tmp_path_factory.mktemp("progs")) / "comm_stuck"


def first_text(p, words, limit_s):
    """stderr up to the line with `words`."""
    begin, text = time.monotonic(), b""
    while not re.search(words.encode(), text):
        left = begin + limit_s - time.monotonic()
        assert left > 0 and select.select([p.stderr], [], [], left)[0], text.decode()
        more = os.read(p.stderr.fileno(), 65536)
        assert more, text.decode()
        text += more
    return text.decode()


def told_after(text):
    """How long the ranks had been in their call when the report was made, by the clock of drover: it begins with the call,
    not with the program, and is the same however late this test comes to read."""
    return max(map(float, re.findall(r"^    ranks? [\d, and-]+: .*, for ([\d.]+) s$", text, re.M)))


ALL = r"collectives of 'world', 4 ranks, call 6: made by \d\n    ranks 0-1 and 3: all_reduce of 1024 float, sum, for [\d.]+ s\n"
HOWS = {
    "away": rf"    rank 2 on node {NODE}: has not made it; its last call was all_reduce of 1024 float, sum, .*<- missing\n",
    "stop": rf"    rank 2 on node {NODE}: has not made it; its last call was .*<- missing\n",
    "order": rf"    rank 2 on node {NODE}: barrier.*<- different call\n",
    "hang": rf"    rank 2 on node {NODE}: has not made it, but is in recv of 1 float, rank 0   <- missing\n",
}


@pytest.mark.parametrize("how", HOWS)
def test_after_the_hang_timeout_it_is_said_who_is_out_of_step(drover, stuck, tmp_path, how):
    events = tmp_path / "ev.jsonl"

    def check(seconds):
        events.unlink(missing_ok=True)
        p = drover.start(*RUN, "--grace", "1", "--hang-timeout", str(seconds), "--events",
                         events, stuck, how, "60000")
        text = first_text(p, ALL + HOWS[how], seconds + 20)
        assert told_after(text) <= seconds + 1, text
        p.communicate(timeout=60)
        assert p.returncode == 124
        told = [json.loads(line) for line in events.read_text().splitlines()]
        assert all(seconds < e["seconds"] < 60 for e in told if e["event"] == "exit")
        return [e for e in told if e["event"] == "hang"][0]
    hang = at_best(check, *SILENCES_S)
    assert [r["differs"] for r in hang["ranks"]] == [False, False, True, False]
    assert hang["ranks"][0]["collective"] == "call 6 of 'world', all_reduce of 1024 float, sum"
    drover.nothing_left()


@pytest.mark.parametrize("how", ["away", "order"])
def test_after_a_ranks_own_deadline_it_is_said_who_is_out_of_step(drover, stuck, how):
    def check(_):
        p = drover.start(*RUN, "--grace", "1", stuck, how, "1500")
        text = first_text(p, r"<- (missing|different call)\n", 20)
        assert re.search(r"drover run: rank \d failed in a collective: Connection timed out\n", text), text
        assert re.search(r"rank 2 on node " + NODE, text) and told_after(text) <= 1.5 + 1, text
        p.communicate(timeout=60)
        assert p.returncode == 3
    at_best(check, 1, 2, 3)
    drover.nothing_left()


def test_another_size_that_ends_the_rank_at_once_is_named(drover, stuck):
    """Open MPI calls MPI_Abort for it."""
    done = drover.run(*RUN, "--grace", "1", stuck, "size", "60000")
    assert done.returncode == 15 and "drover run: rank 2 failed in a collective\n" in done.stderr
    assert re.search(rf"rank 2 on node {NODE}: all_reduce of 512 float, sum   <- different call", done.stderr), done.stderr


def serve_ras(server, asked):
    """NCCL's text protocol, as its client sees it, of a version without JSON: two queries."""
    server.settimeout(30)
    for _ in range(2):
        with server.accept()[0] as s, s.makefile("rw", newline="\n") as f:
            answer_ras(f, asked)


def answer_ras(f, asked):
    for answer in ("SERVER PROTOCOL 2\n", "ERROR: Unknown command 'SET FORMAT json'\n", "OK\n",
                   "NCCL version 2.28.9\n\nJob summary\n  2 nodes, all well\n"):
        asked.append(f.readline())
        f.write(answer)
        f.flush()


def test_what_nccls_ras_says_is_in_the_report(drover):
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve_ras, args=(server, asked))
        thread.start()
        done = drover.run("run", "-np", "2", "--oversubscribe", "--grace", "1", "--hang-timeout", "1", "-x",
                          f"NCCL_RAS_ADDR=localhost:{server.getsockname()[1]}", "sleep", "60")
        thread.join()
    assert done.returncode == 124
    assert "  NCCL RAS reports:\n    NCCL version 2.28.9\n    \n    Job summary\n      2 nodes, all well\n" in done.stderr
    assert asked == 2 * ["CLIENT PROTOCOL 2\n", "SET FORMAT json\n", "TIMEOUT 10\n", "VERBOSE STATUS\n"]


def test_each_job_with_a_hang_timeout_has_its_own_ras(drover):
    show = ["sh", "-c", "echo ${NCCL_RAS_ADDR-none}"]
    own = drover.run("run", "-np", "1", "--hang-timeout", "60", *show).stdout
    assert re.fullmatch(r"localhost:2\d{4}\n", own)
    assert drover.run("run", "-np", "1", "--hang-timeout", "60", *show, env={"NCCL_RAS_ADDR": "[::1]:3"}).stdout == "[::1]:3\n"
    assert drover.run("run", "-np", "1", *show).stdout == "none\n"


def test_a_ras_that_nobody_serves_or_that_is_silent_holds_nothing_up_for_long(drover):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for address in (f"localhost:{silent.getsockname()[1]}", "localhost:1", "nonsense"):
            begin = time.monotonic()
            done = drover.run("run", "-np", "1", "--grace", "1", "--hang-timeout", "1", "sleep", "60",
                              env={"NCCL_RAS_ADDR": address})
            assert done.returncode == 124 and "RAS" not in done.stderr and time.monotonic() - begin < 20


def test_a_job_whose_collectives_fit_says_nothing(drover, stuck):
    done = drover.run(*RUN, "--hang-timeout", "1", stuck, "no way", "60000")
    assert (done.returncode, done.stderr) == (0, "")
