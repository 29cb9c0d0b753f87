"""Other processes of this machine connect to the ports of a job: the job does not notice."""
import os

import pytest
from test_interpose import build_mpi_program  # noqa: F401  a fixture
from test_run_mpi import RUN

# Before rank 0 calls MPI_Init, another process connects to the PMIx server and keeps its connections.
STRANGER = r"""
import os, socket, sys, time
port = int(os.environ["PMIX_SERVER_URI4"].rsplit(":", 1)[1])
connected, write_end = os.pipe()
if os.fork():
    os.close(write_end)
    assert os.read(connected, 1)
    os.execv(sys.argv[2], sys.argv[2:])
os.setsid()
for out in (1, 2):
    os.dup2(os.open("/dev/null", os.O_WRONLY), out)
if sys.argv[1] == "user":
    os.setresuid(12345, 12345, 12345)
kept = []
for i in range(40):
    s = socket.socket()
    s.connect(("127.0.0.1", port))
    kept.append(s)
    try:
        if sys.argv[1] == "garbage":
            s.send(os.urandom(300) if i % 2 else b"\xff" * 16 + b"native\0")
        elif sys.argv[1] == "user":
            s.send(b"\xff" * 8 + (8).to_bytes(8, "little") + b"native\0\0")
    except OSError:
        pass  # it was closed
os.write(write_end, b"c")
time.sleep(100)
"""


@pytest.mark.parametrize("what", ["silent", "garbage", "user"])
def test_strangers_at_the_pmix_port_delay_no_rank(drover, mpi_program, tmp_path, what):  # noqa: F811
    if what == "user" and os.geteuid() != 0:
        pytest.skip("needs root, to connect as another user")
    (tmp_path / "stranger.py").write_text(STRANGER)
    script = f"[ $RANK != 0 ] || exec python3 stranger.py {what} {mpi_program}; exec {mpi_program}"
    done = drover.run(*RUN, "-np", "3", "sh", "-c", script, timeout=60)
    assert done.returncode == 0 and done.stdout.count("/3 from ") == 3, done.stderr
    assert "PMIX" not in done.stderr and "PMIx ERROR" not in done.stderr
    assert ("rejected a connection of user 12345" in done.stderr) == (what == "user"), done.stderr
    drover.nothing_left()
