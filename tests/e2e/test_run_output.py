"""`drover run`: the ranks' output, whole on the console and byte by byte in files."""
import os
import re
import shutil
import subprocess

import pytest
from conftest import DROVER, compile_c
from waiting import wait_until

RUN = ["run", "--oversubscribe"]
# Lines "RANK NUMBER xxxx…" of random length, in writes that end anywhere; the sums are of what was written.
WRITER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank = atoi(getenv("RANK")), lines = atoi(argv[1]);
    unsigned seed = (unsigned)atoi(argv[2]) + (unsigned)rank;
    static char text[64 << 10];
    size_t have = 0;
    for (int i = 0; i < lines; i++) {
        int fill = rand_r(&seed) % 20 ? rand_r(&seed) % 120 : rand_r(&seed) % 9000;
        have += (size_t)sprintf(text + have, "%d %d ", rank, i);
        memset(text + have, 'a' + rank, (size_t)fill);
        have += (size_t)fill;
        text[have++] = '\n';
        for (size_t part; have > 40000 || (i == lines - 1 && have); have -= part) {
            part = 1 + (size_t)rand_r(&seed) % have;
            if (write(1, text, part) != (ssize_t)part)
                return 1;
            memmove(text, text + part, have - part);
        }
    }
    return 0;
}
"""


def check_lines(text, alone):
    """Each rank's lines in their order, each byte once. On a busy machine a rank may stop for 100 ms in the middle of a line:
    then its rest is on a line of its own, with a tag."""
    of = [[] for _ in alone]
    for line in text.splitlines():
        tag, _, rest = line.partition("] ")
        of[int(tag[1:])].append(rest)
    for mine, wanted in zip(of, alone):
        lines = wanted.decode().splitlines()
        assert len(mine) >= len(lines) and "".join(mine) == "".join(lines)


def writes_alone(program, ranks, *args):
    return [subprocess.run([program, *args], env={"RANK": str(rank)}, stdout=subprocess.PIPE, check=True).stdout
            for rank in range(ranks)]


def test_lines_of_8_ranks_are_whole_and_files_have_what_was_written(drover, tmp_path, seed):
    program, number = compile_c(tmp_path, "writer", WRITER), seed.randrange(1 << 20)
    done = drover.run(*RUN, "--tag", "rank", "-np", "8", "--output-filename", "out/d", program, "5000", number)
    assert done.returncode == 0, done.stderr
    alone = writes_alone(program, 8, "5000", str(number))
    check_lines(done.stdout, alone)
    for rank in range(8):
        assert (tmp_path / f"out/d/rank.{rank}/stdout").read_bytes() == alone[rank]
        assert (tmp_path / f"out/d/rank.{rank}/stderr").read_bytes() == b""


def test_a_slow_reader_loses_nothing(drover, tmp_path, seed):
    """Far more than fits into pipes and queues, to a reader that begins when the ranks have long been stopped."""
    program, number = compile_c(tmp_path, "writer", WRITER), str(seed.randrange(1 << 20))
    job = drover.start(*RUN, "--tag", "rank", "-np", "4", program, "20000", number)
    head = job.stdout.read(1000)
    done = subprocess.run(["ps", "-o", "rss=", "-p", str(job.pid)], stdout=subprocess.PIPE, check=True)
    rest, err = job.communicate(timeout=60)
    assert job.returncode == 0, err
    text = (head + rest).decode()
    assert len(text) > 10 << 20
    check_lines(text, writes_alone(program, 4, "20000", number))
    assert int(done.stdout) < 64 << 10, "KiB of memory: it keeps what it should leave in the pipes"


def test_lines_of_both_streams_into_one_file_are_whole(drover, tmp_path):
    script = "i=0; while [ $i -lt 2000 ]; do echo o$RANK-$i-o; echo e$RANK-$i-e >&2; i=$((i+1)); done"
    with open(tmp_path / "both", "w", encoding="ascii") as both:
        done = subprocess.run([DROVER, *RUN, "-np", "4", "sh", "-c", script], env=drover.env, stdout=both, stderr=both,
                              stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert done.returncode == 0
    lines = (tmp_path / "both").read_text().splitlines()
    assert sorted(lines) == sorted(f"{c}{r}-{i}-{c}" for c in "oe" for r in range(4) for i in range(2000))


def test_marks_are_mpiruns(drover):
    script = "echo out; echo err >&2"
    done = drover.run(*RUN, "-np", "2", "--tag-output", "sh", "-c", script)
    assert sorted(done.stdout.splitlines()) == ["[1,0]<stdout>:out", "[1,1]<stdout>:out"]
    assert sorted(done.stderr.splitlines()) == ["[1,0]<stderr>:err", "[1,1]<stderr>:err"]
    done = drover.run(*RUN, "-np", "1", "--tag-output", "--timestamp-output", "--merge-stderr-to-stdout", "sh", "-c",
                      script)
    stamp = r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}"
    assert all(re.fullmatch(stamp + r"\[1,0\]<std(out|err)>:(out|err)", x) for x in done.stdout.splitlines())
    assert len(done.stdout.splitlines()) == 2 and done.stderr == ""


def test_one_ranks_bytes_come_as_they_are(drover, tmp_path, seed):
    data = seed.randbytes(300000)
    (tmp_path / "data").write_bytes(data)
    done = subprocess.run([DROVER, "run", "-np", "1", "cat", tmp_path / "data"], env=drover.env, stdout=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, timeout=30, check=False)
    assert done.returncode == 0 and done.stdout == data


def test_a_line_without_an_end_is_not_cut_by_anothers(drover):
    done = drover.run(*RUN, "-np", "4", "sh", "-c", "printf rank$RANK")
    assert sorted(done.stdout.split("\n")) == ["rank0", "rank1", "rank2", "rank3"]


def test_a_prompt_comes_before_its_line_ends(drover):
    job = drover.start("run", "-np", "1", "sh", "-c", r"printf 'name? '; read x; echo hello $x", stdin=subprocess.PIPE)
    assert job.stdout.read(6) == b"name? "
    out, _ = job.communicate(b"you\n", timeout=10)
    assert out == b"hello you\n"


@pytest.mark.parametrize("options, tag", [((), ""), (("--tag", "rank"), r"\[(\d)\] "), (("--tag-output",), r"\[1,(\d)\]<stdout>:"),
                                          (("--tag", "host"), r"[^|]*:(\d)\| "),
                                          (("--merge-stderr-to-stdout", "--tag", "rank"), r"\[(\d)\] "),
                                          (("--timestamp-output", "--tag", "rank"), r".{24}\[(\d)\] ")])
def test_dots_of_several_ranks_are_in_a_file_once(drover, options, tag):
    """Each rank begins lines, waits longer than it takes to show them, and ends them. Lines of others come between."""
    done = drover.run(*RUN, "-np", "4", *options, "sh", "-c",
                      "for i in 1 2 3; do printf $RANK$RANK; sleep 0.2$RANK; printf $RANK; sleep 0.1; echo $RANK; done")
    parts = [re.fullmatch(rf"{tag}(?P<text>(?P<rank>\d)(?P=rank)*|)", line) for line in done.stdout.splitlines()]
    assert all(parts), done.stdout
    assert tag == "" or all(part[1] == part["rank"] for part in parts if part["text"]), done.stdout
    whole = "".join(part["text"] for part in parts)
    assert {rank: whole.count(rank) for rank in "0123"} == {rank: 12 for rank in "0123"}, done.stdout


def test_drover_logs_shows_dots_of_several_ranks_once(drover, tmp_path):
    go = tmp_path / "go"
    job = drover.start(*RUN, "-np", "3", "sh", "-c", f"for i in 1 2 3 4; do printf $RANK; sleep 0.3$RANK; done; while [ ! -e {go} ]; "
                       "do sleep 0.1; done; printf $RANK; sleep 0.5; echo $RANK; sleep 0.5", stdout=subprocess.DEVNULL)
    wait_until(lambda: drover.run("logs", f"drover-{job.pid}-").stdout.count("|") >= 3, "the first dots")
    logs = drover.start("logs", "-f", f"drover-{job.pid}-")
    go.touch()
    out, _ = logs.communicate(timeout=30)
    job.communicate(timeout=10)
    text = re.sub(rb"^\d\| ", b"", out, flags=re.M)
    assert {rank: text.count(b"%d" % rank) for rank in range(3)} == {rank: 6 for rank in range(3)}, out


def test_a_prompt_of_one_of_many_ranks_comes_before_its_line_ends(drover):
    job = drover.start(*RUN, "-np", "3", "sh", "-c",
                       r"[ $RANK = 0 ] && { printf 'name? '; read x; echo hello $x; } || exit 0",
                       stdin=subprocess.PIPE)
    assert job.stdout.read(6) == b"name? "
    out, _ = job.communicate(b"you\n", timeout=10)
    assert out == b"hello you\n"


def test_dots_come_into_a_file_one_by_one(drover, tmp_path):
    with open(tmp_path / "log", "wb") as log:
        job = subprocess.Popen([DROVER, *RUN, "-np", "2", "sh", "-c",
                                "[ $RANK = 0 ] && { printf .; read x; printf .; read y; echo; } || cat"],
                               env=drover.env, stdin=subprocess.PIPE, stdout=log)
        wait_until(lambda: (tmp_path / "log").read_text() == ".", "the first dot")
        job.stdin.write(b"x\n")
        job.stdin.flush()
        wait_until(lambda: (tmp_path / "log").read_text() == "..", "the second dot")
        job.communicate(b"y\n", timeout=10)
    assert job.returncode == 0 and (tmp_path / "log").read_text() == "..\n"


# ---- the pty that a rank has as its stdout

# Prints two lines by stdio. Then it waits for a byte or the end of stdin, and does what its argument says.
PRINTER = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char byte;
    printf("one\ntwo\n");
    if (read(0, &byte, 1) < 0)
        return 1;
    if (strcmp(argv[1], "abort") == 0)
        abort();
    if (strcmp(argv[1], "kill") == 0)
        kill(getpid(), SIGKILL);
    return 0;
}
"""


def read_exactly(stream, count):
    text = b""
    while len(text) < count and (more := stream.read(count - len(text))):
        text += more
    return text


@pytest.fixture(name="printer", scope="module")
def build_printer(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("printer"), "printer", PRINTER)


def test_lines_of_a_c_program_are_live(drover, printer):
    job = drover.start("run", "-np", "1", printer, "exit", stdin=subprocess.PIPE)
    assert read_exactly(job.stdout, 8) == b"one\ntwo\n"
    assert job.communicate(b"x", timeout=10)[0] == b""
    assert job.returncode == 0


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun")
def test_lines_of_a_c_program_are_live_under_mpirun_too(printer):
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with subprocess.Popen(["mpirun", "-np", "1", printer, "exit"], env={**os.environ, **root}, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as job:
        assert read_exactly(job.stdout, 8) == b"one\ntwo\n"
        job.communicate(b"x", timeout=30)


@pytest.mark.parametrize("end, status", [("abort", 134), ("kill", 137)])
def test_the_last_lines_of_a_c_program_are_kept(drover, printer, end, status):
    done = drover.run("run", "-np", "1", printer, end)
    assert done.returncode == status and done.stdout == "one\ntwo\n"
    assert done.stderr.count("    two\n") == 1, "its last lines, in the report"


def test_the_last_lines_before_a_time_limit_are_kept(drover, printer):
    job = drover.start("run", "-np", "1", "--timeout", "0.5", printer, "exit", stdin=subprocess.PIPE)
    assert read_exactly(job.stdout, 9) == b"one\ntwo\n"
    assert job.wait(10) == 124


def test_no_pty_is_a_pipe(drover):
    script = "for i in 0 1 2; do [ -t $i ] && printf t || printf n; done; echo $TERM"
    env = {"TERM": "xterm"}
    assert drover.run("run", "-np", "1", "sh", "-c", script, env=env).stdout == "ntndumb\n"
    assert drover.run("run", "-np", "1", "--no-pty", "sh", "-c", script, env=env).stdout == "nnnxterm\n"
    assert drover.run("run", "-np", "1", "-x", "TERM", "sh", "-c", script, env=env).stdout == "ntnxterm\n"
    assert drover.run("run", "-np", "1", "-x", "TERM=a", "sh", "-c", script, env=env).stdout == "ntna\n"


def test_without_ptys_stdout_is_a_pipe_and_one_line_says_so(drover):
    words = ["unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /dev/ptmx && exec "$@"', "sh"]
    if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("this user cannot hide /dev/ptmx")
    done = subprocess.run([*words, DROVER, *RUN, "-np", "3", "sh", "-c", "[ -t 1 ] || echo pipe"], env=drover.env,
                          text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=30, check=False)
    assert done.returncode == 0 and done.stdout == "pipe\n" * 3
    assert done.stderr.count("cannot open a pty") == 1, done.stderr


def test_no_character_is_special(drover, tmp_path):
    """Each byte passes unchanged, and so does what a terminal would act on: Ctrl-C, Ctrl-D, Ctrl-S."""
    data = bytes(range(256)) * 40
    (tmp_path / "data").write_bytes(data)
    for options in ([], ["--no-pty"]):
        done = subprocess.run([DROVER, "run", *options, "-np", "1", "cat", tmp_path / "data"], env=drover.env,
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=30, check=False)
        assert done.returncode == 0 and done.stdout == data


def test_a_reader_that_has_enough_ends_the_job(drover):
    done = subprocess.run(f"'{DROVER}' run -np 1 yes | head -n 2", shell=True, env=drover.env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, timeout=30, check=False)
    assert done.stdout == b"y\ny\n"


def test_long_lines_of_two_ranks_are_whole(drover, tmp_path):
    """Lines of 500 kB, and of 3 MB, which exceed what drover keeps of a line."""
    (tmp_path / "t.py").write_text("""
import os, sys
for i in range(6):
    sys.stdout.write(os.environ["RANK"] * (3000000 if i == 3 else 500000) + "\\n")
""")
    done = drover.run(*RUN, "-np", "2", "t.py")
    assert done.returncode == 0
    lengths = sorted(len(x) for x in done.stdout.splitlines())
    assert lengths == [500000] * 10 + [3000000] * 2
    assert all(len(set(x)) == 1 for x in done.stdout.splitlines())


def test_a_progress_bar_comes_as_it_moves(drover):
    job = drover.start("run", "-np", "1", "sh", "-c", r"printf '10%%\r20%%\r30'; read x; printf '%%\n'",
                       stdin=subprocess.PIPE)
    assert job.stdout.read(8) == b"10%\r20%\r"
    out, _ = job.communicate(b"\n", timeout=10)
    assert out == b"30%\n"


def test_a_disk_that_is_full_ends_output_but_not_the_job(drover, tmp_path):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([DROVER, *RUN, "-np", "2", "sh", "-c", "echo x; sleep 0.2; touch done.$RANK"],
                              cwd=tmp_path, env=drover.env, stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE, timeout=30, check=False)
    assert done.returncode == 1 and b"No space left" in done.stderr
    assert (tmp_path / "done.0").exists() and (tmp_path / "done.1").exists()


def test_a_file_that_is_cut_goes_on_at_its_beginning(drover, tmp_path):
    """As logrotate's copytruncate cuts it."""
    job = drover.start("run", "-np", "1", "--output-filename", "out", "sh", "-c", "echo before; read x; echo after",
                       stdin=subprocess.PIPE)
    file = tmp_path / "out/rank.0/stdout"
    wait_until(lambda: file.exists() and file.read_bytes() == b"before\n", "the first line")
    os.truncate(file, 0)
    job.communicate(b"\n", timeout=10)
    assert (job.returncode, file.read_bytes()) == (0, b"after\n")


def test_hydras_patterns_name_a_file_per_rank(drover, tmp_path):
    """As mpiexec.hydra: what is in a file is not shown."""
    (tmp_path / "out-1.log").write_text("an older job's\n")
    done = drover.run(*RUN, "-np", "2", "-outfile-pattern", "out-%r.log", "-errfile-pattern", "d/%h/err%%-%p-%r", "sh", "-c",
                      "echo o$RANK; echo e$RANK >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    files = {str(f.relative_to(tmp_path)): f.read_text() for f in tmp_path.rglob("*-*") if f.is_file()}
    host = os.uname().nodename
    assert files == {"out-0.log": "o0\n", "out-1.log": "o1\n", f"d/{host}/err%-0-0": "e0\n", f"d/{host}/err%-0-1": "e1\n"}
    done = drover.run(*RUN, "-np", "2", "-outfile-pattern", "only-%r", "sh", "-c", "echo o; echo e >&2")
    assert (done.stdout, done.stderr) == ("", "e\ne\n") and (tmp_path / "only-1").read_text() == "o\n"
    done = drover.run(*RUN, "-np", "1", "-outfile-pattern", "/dev/null/%r", "touch", "started")
    assert done.returncode == 2 and "/dev/null" in done.stderr and not (tmp_path / "started").exists()
