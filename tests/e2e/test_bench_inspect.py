"""`drover bench inspect`: dumps as NCCL Inspector writes them, of each form that its source has had."""
import json
import os
import subprocess

import pytest
from bench_kit import DROVER
from kit_ranks import clean_env


def record(rank, ranks, us, busbw, form="2.30", comm="0x7f8c496ae9f661", size=1 << 24):
    """One line. 2.28: without comm_name and p2p_perf; verbose: with the traces of NCCL_INSPECTOR_DUMP_VERBOSE."""
    header = {"id": comm, "rank": rank, "n_ranks": ranks, "nnodes": 1}
    if form != "2.28":
        header = {"id": comm, "comm_name": "DP Group 0", **{k: header[k] for k in ("rank", "n_ranks", "nnodes")}}
    p = "p2p" if form == "p2p" else "coll"
    perf = {p: "Send" if p == "p2p" else "AllReduce", f"{p}_sn": 7, **({"p2p_peer": 1} if p == "p2p" else {}),
            f"{p}_msg_size_bytes": size, f"{p}_exec_time_us": us, f"{p}_timing_source": "kernel_gpu",
            f"{p}_algobw_gbs": busbw, f"{p}_busbw_gbs": busbw}
    if form == "verbose":
        events = [{"channel_id": 0, "kernel_start_sn": 3, "kernel_stop_sn": 48, "kernel_record_sn": 47}]
        perf["event_trace_sn"] = {"coll_start_sn": 1, "coll_stop_sn": 2, "kernel_events": events}
    metadata = {"inspector_output_format_version": "v4.0", "git_rev": "9019a1912-dirty", "rec_mechanism": "nccl_profiler_interface",
                "dump_timestamp_us": 1752867229276385, "hostname": f"c{rank // 2 + 1:02}", "pid": 4000 + rank}
    return json.dumps({"header": header, "metadata": metadata, f"{p}_perf": perf}, separators=(",", ":"))


def inspect(*args):
    return subprocess.run([str(DROVER), "bench", "inspect", *map(str, args)], env=clean_env(), text=True, capture_output=True,
                          timeout=60, check=False)


def dump(directory, rank, *lines, end="\n"):
    (directory / f"c{rank // 2 + 1:02}-pid{4000 + rank}.log").write_text("\n".join(lines) + end)


@pytest.mark.parametrize("form", ["2.28", "2.30", "verbose"])
def test_a_table_names_the_slowest_rank_and_the_late_one(tmp_path, form):
    for rank in range(4):
        us, busbw = {1: (1200, 80), 3: (300, 320)}.get(rank, (1000, 100))
        dump(tmp_path, rank, *[record(rank, 4, us, busbw, form)] * 5)
    done = inspect(tmp_path)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    name = ["unknown"] if form == "2.28" else ["DP", "Group", "0"]
    assert rows[1] == ["0x7f8c496ae9f661", *name, "coll", "1", "c01", "4001", "5", "6.00", "80.00"]
    assert "slowest rank 1 on c01, 80.00 GB/s, median 100.00 GB/s (80 %)\n" in done.stdout
    assert "rank 3 on c02 has the shortest operations: it comes late" in done.stdout
    assert done.stdout.endswith("# 4 files, 20 lines: 0 broken, 0 unfinished, 0 too small\n")


def test_broken_and_half_written_lines_are_tolerated_and_counted(tmp_path):
    whole = record(0, 2, 1000, 100)
    os.mkfifo(tmp_path / "pipe.log")  # opening it would wait
    (tmp_path / "dir.log").mkdir()
    dump(tmp_path, 0, whole, record(0, 2, 1000, -100), whole, whole[:len(whole) // 2], end="")
    dump(tmp_path, 1, record(1, 2, 1000, 100), record(1, 2, 1000, 100), end="")  # whole, without a newline
    (tmp_path / "nccl_inspector.prom").write_text("nccl_bus_bandwidth_gbs{} 1\n")
    done = inspect(tmp_path, "--json")
    assert done.returncode == 0 and "the first broken line" in done.stderr, done.stderr
    got = json.loads(done.stdout)
    assert (got["files"], got["lines"], got["broken"], got["unfinished"]) == (2, 6, 1, 1)
    (comm,) = got["communicators"]
    assert [(r["rank"], r["ops"], r["busbw_gbps"]) for r in comm["rows"]] == [(0, 2, 100), (1, 2, 100)]
    assert (comm["id"], comm["kind"], comm["ranks"], comm["missing_ranks"], comm["late_rank"]) == ("0x7f8c496ae9f661", "coll", 2, 0, None)


def test_sends_are_apart_and_small_operations_can_be_left_out(tmp_path):
    nan = record(0, 2, 0, 0).replace('"coll_busbw_gbs":0', '"coll_busbw_gbs":"nan"')
    dump(tmp_path, 0, record(0, 2, 10, 50, "p2p"), record(0, 2, 10, 100), record(0, 2, 10, 1, size=8192), nan)
    got = json.loads(inspect(tmp_path, "--min-bytes", "1M", "--json").stdout)
    assert got["left_out"] == 1 and [(c["kind"], c["rows"][0]["ops"], c["rows"][0]["busbw_gbps"]) for c in got["communicators"]] == [
        ("coll", 2, 100), ("p2p", 1, 50)]
    assert "ranks without a record: 1 of 2, rank 1\n" in inspect(tmp_path).stdout


def test_what_is_no_dump_is_refused(tmp_path):
    assert "there is no dump" in inspect(tmp_path).stderr and inspect(tmp_path).returncode == 2
    for args, says in (([], "expected one directory"), ([tmp_path / "none"], "No such file"), ([tmp_path, "-b", "x"], "--min-bytes")):
        done = inspect(*args)
        assert done.returncode == 2 and says in done.stderr and done.stdout == ""
    (tmp_path / "job.log").write_text("epoch 1\nepoch 2\n")
    done = inspect(tmp_path)
    assert done.returncode == 1 and "2 lines: 2 broken" in done.stdout
