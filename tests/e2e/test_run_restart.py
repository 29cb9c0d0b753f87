"""`drover run --max-restarts`: how often, when, and what an attempt finds."""
import json
import os
import re
import signal
import time

from waiting import wait_until

RUN = ["run", "--oversubscribe"]
COUNT = "echo x >>count; [ $(wc -l <count) -gt {} ] || exit 3"


def test_a_job_is_started_again_until_it_ends_well(drover, tmp_path):
    began = time.monotonic()
    done = drover.run(*RUN, "-np", "1", "--max-restarts", "5", "sh", "-c", COUNT.format(2))
    took = time.monotonic() - began
    assert done.returncode == 0
    assert (tmp_path / "count").read_text() == "x\n" * 3
    assert took > 0.9, f"{took:.2f} s: at once, then a pause of 1 s"
    assert "restart 1 of 5" in done.stderr and "restart 2 of 5" in done.stderr and "restart 3" not in done.stderr
    drover.nothing_left()


def test_restarts_are_exact_and_the_last_failures_status_counts(drover, tmp_path):
    done = drover.run(*RUN, "-np", "2", "--max-restarts", "2", "sh", "-c",
                      "[ $RANK = 1 ] || exec sleep 100; echo x >>count; exit $((4 + $(wc -l <count)))")
    assert done.returncode == 7
    assert (tmp_path / "count").read_text() == "x\n" * 3
    assert done.stderr.count("exited with status") == 3
    drover.nothing_left()


def test_an_attempt_finds_its_number_and_a_new_port(drover, tmp_path):
    file = tmp_path / "ev.jsonl"
    done = drover.run(*RUN, "-np", "1", "--max-restarts", "1", "--events", file, "sh", "-c",
                      "echo $DROVER_RESTART_COUNT $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS "
                      "$MASTER_PORT $DROVER_JOB_ID; exit 1")
    first, second = (line.split() for line in done.stdout.splitlines())
    assert first[:3] == ["0", "0", "1"] and second[:3] == ["1", "1", "1"]
    assert first[3] != second[3] and first[4] == second[4]
    all_events = [json.loads(line) for line in file.read_text().splitlines()]
    assert [e["attempt"] for e in all_events if e["event"] == "planned"] == [0, 1]
    assert [(e["attempt"], e["pause_ms"]) for e in all_events if e["event"] == "restart"] == [(1, 0)]


def test_each_attempt_has_output_files_of_its_own(drover, tmp_path):
    done = drover.run(*RUN, "-np", "1", "--max-restarts", "1", "--output-filename", "out", "sh", "-c",
                      "echo try >>n; cat n; exit 1")
    assert done.returncode == 1
    assert (tmp_path / "out/rank.0/stdout").read_text() == "try\n"
    assert (tmp_path / "out/attempt_1/rank.0/stdout").read_text() == "try\ntry\n"


def test_what_can_never_start_is_not_tried_again(drover):
    done = drover.run(*RUN, "-np", "1", "--max-restarts", "3", "no-such-program")
    assert done.returncode == 127 and "restart" not in done.stderr


def test_the_users_signal_ends_the_job_for_good(drover):
    p = drover.start(*RUN, "-np", "2", "--max-restarts", "3", "sh", "-c", "trap 'exit 9' TERM; echo up; sleep 100 & wait")
    for _ in range(2):
        assert p.stdout.readline() == b"up\n"
    p.send_signal(signal.SIGTERM)
    _, err = p.communicate(timeout=30)
    assert p.returncode == 143 and b"restart" not in err
    drover.nothing_left()


def test_a_signal_during_the_pause_ends_the_run(drover):
    p = drover.start(*RUN, "-np", "1", "--max-restarts", "9", "sh", "-c", "exit 5")
    os.set_blocking(p.stderr.fileno(), False)
    said = []

    def pausing():
        said.append(p.stderr.read() or b"")
        return b"in 4 s" in b"".join(said)
    wait_until(pausing, "the third pause", 30)
    began = time.monotonic()
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=30)
    assert p.returncode == 5 and time.monotonic() - began < 2


def test_the_time_limit_is_that_of_all_attempts_together(drover):
    done = drover.run(*RUN, "-np", "1", "--max-restarts", "9", "--timeout", "2", "sh", "-c", "exit 5")
    assert done.returncode == 124
    assert len(re.findall("restart [0-9]+ of 9", done.stderr)) == 3  # at once, after 1 s, and one to come


def test_a_hang_counts_as_a_failure(drover, tmp_path):
    done = drover.run(*RUN, "-np", "1", "--max-restarts", "1", "--hang-timeout", "1", "sh", "-c",
                      "echo x >>count; [ $(wc -l <count) = 2 ] || exec sleep 100")
    assert done.returncode == 0 and (tmp_path / "count").read_text() == "x\n" * 2
    drover.nothing_left()


def test_a_negative_number_is_refused(drover):
    done = drover.run(*RUN, "--max-restarts", "-1", "true")
    assert done.returncode == 2 and "--max-restarts" in done.stderr
