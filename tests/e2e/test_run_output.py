"""`drover run`: the ranks' output, whole on the console and byte by byte in files."""
import re
import subprocess

from conftest import DROVER, compile_c

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


def check_lines(text, ranks, lines):
    """Every line whole, each rank's in its order, none missing."""
    next_ = [0] * ranks
    for line in text.splitlines():
        m = re.fullmatch(r"(\d+) (\d+) ([a-z]*)", line)
        assert m, f"torn: {line[:200]!r}"
        rank = int(m.group(1))
        assert set(m.group(3)) <= {chr(ord("a") + rank)}, f"torn: {line[:200]!r}"
        assert int(m.group(2)) == next_[rank]
        next_[rank] += 1
    assert next_ == [lines] * ranks


def test_lines_of_8_ranks_are_whole_and_files_have_what_was_written(drover, tmp_path, seed):
    program, number = compile_c(tmp_path, "writer", WRITER), seed.randrange(1 << 20)
    done = drover.run(*RUN, "-np", "8", "--output-filename", "out/d", program, "5000", number)
    assert done.returncode == 0, done.stderr
    check_lines(done.stdout, 8, 5000)
    for rank in range(8):
        alone = subprocess.run([program, "5000", str(number)], env={"RANK": str(rank)}, stdout=subprocess.PIPE,
                               check=True).stdout
        assert (tmp_path / f"out/d/rank.{rank}/stdout").read_bytes() == alone
        assert (tmp_path / f"out/d/rank.{rank}/stderr").read_bytes() == b""


def test_a_slow_reader_loses_nothing(drover, tmp_path, seed):
    """Far more than fits into pipes and queues, to a reader that begins when the ranks have long been stopped."""
    program = compile_c(tmp_path, "writer", WRITER)
    job = drover.start(*RUN, "-np", "4", program, "20000", str(seed.randrange(1 << 20)))
    head = job.stdout.read(1000)
    done = subprocess.run(["ps", "-o", "rss=", "-p", str(job.pid)], stdout=subprocess.PIPE, check=True)
    rest, err = job.communicate(timeout=60)
    assert job.returncode == 0, err
    text = (head + rest).decode()
    assert len(text) > 10 << 20
    check_lines(text, 4, 20000)
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


def test_lines_that_have_begun_are_not_cut_by_anothers(drover):
    """Each rank begins lines, waits longer than it takes to show them, and ends them."""
    done = drover.run(*RUN, "-np", "4", "sh", "-c",
                      "for i in 1 2 3; do printf $RANK-$i; sleep 0.2$RANK; echo -end; done")
    assert sorted(done.stdout.splitlines()) == [f"{r}-{i}-end" for r in range(4) for i in (1, 2, 3)]


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
