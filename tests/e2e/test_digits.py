"""The example of examples/digits: it learns, ranks change nothing but the speed, and whatever ends it, it goes on bit by
bit where it was. Its GPU part runs here on the CPU (tests/cudahost), compiled from the same source."""
import errno
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from kit_ranks import BUILD, FAKE_NCCL, MPIRUN, ROOT, clean_env, started, under_mpirun
from waiting import wait_until

DIGITS = BUILD / "examples" / "digits" / "digits"
SOURCE = ROOT / "examples" / "digits"
LIMIT_S = 100
SANITIZED = BUILD.name.startswith("san-")
STEADY = ["--optimizer=momentum", "--lr=0.05", "--schedule=constant", "--batch=50", "--hidden=64,32", "--augment"]


def finish(argv, **env):
    return subprocess.run([str(a) for a in argv], env=clean_env(**env), text=True, capture_output=True, timeout=LIMIT_S,
                          check=False)


def digits(*options, program=DIGITS, ranks=1, **env):
    """Runs to a good end -> what it printed."""
    argv = [program, *options]
    done = finish(argv if ranks == 1 else under_mpirun(ranks, argv, env), **env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def curve(text):
    """[(loss, val_loss, accuracy), …] by epoch"""
    rows = re.findall(r"^epoch +(\d+)  loss (\S+)  val_loss (\S+)  accuracy (\S+)$", text, re.M)
    assert [int(r[0]) for r in rows] == list(range(int(rows[0][0]), int(rows[0][0]) + len(rows)))
    return [tuple(map(float, r[1:])) for r in rows]


def weights(text):
    """The checksum of the last line."""
    return re.search(r"^weights ([0-9a-f]{16}) after epoch", text, re.M).group(1)


def apart(a, b):
    """The largest difference between two curves' losses."""
    assert len(a) == len(b)
    return max(abs(x - y) for p, q in zip(a, b) for x, y in zip(p[:2], q[:2]))


def test_alone_it_learns_to_read_in_seconds():
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    learned = curve(digits())
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    assert learned[-1][2] >= 0.975
    assert learned[-1][0] < learned[0][0]
    assert SANITIZED or seconds < 5


def test_the_loss_is_the_mean_over_the_samples_whatever_the_batch():
    still = ["--epochs=1", "--lr=1e-12", "--weight_decay=0", "--dropout=0", "--label_smoothing=0"]
    whole = curve(digits(*still, "--batch=1437"))
    assert apart(whole, curve(digits(*still, "--batch=50"))) <= 1e-5
    assert 2 < whole[0][0] < 4  # it guesses: ln 10, and more for being sure of it
    assert abs(whole[0][0] - whole[0][1]) < 0.2


@pytest.mark.parametrize("options", [
    [*STEADY, "--epochs=8", "--dropout=0.2", "--activation=tanh", "--label-smoothing=0.1"],
    ["--epochs=3", "--hidden=64", "--batch=61", "--optimizer=adamw", "--activation=gelu"],
    ["--epochs=1", "--hidden=16", "--batch=2", "--optimizer=sgd", "--lr=0.02"],  # less samples than ranks
], ids=["momentum", "adamw", "idle-ranks"])
def test_ranks_do_not_change_the_curve(options):
    alone = curve(digits(*options))
    for ranks in (2, 3):
        assert apart(alone, curve(digits(*options, ranks=ranks))) <= 1e-4


def test_drover_run_starts_it():
    done = finish([BUILD / "bin" / "drover", "run", "-np", 2, DIGITS, *STEADY, "--epochs=2"])
    assert done.returncode == 0, done.stderr
    assert apart(curve(done.stdout), curve(digits(*STEADY, "--epochs=2"))) <= 1e-4


def test_the_sweep_file_finds_a_network_that_reads_well(tmp_path):
    (tmp_path / "examples" / "digits").mkdir(parents=True)
    (tmp_path / "examples" / "digits" / "digits").symlink_to(DIGITS)
    drover = str(BUILD / "bin" / "drover")
    text = (SOURCE / "sweep.yaml").read_text()
    assert "run_cap: 20\n" in text
    (tmp_path / "sweep.yaml").write_text(text.replace("run_cap: 20\n", "run_cap: 12\n"))  # the seed's first 12 trials
    began = time.monotonic()
    subprocess.run([drover, "sweep", "sweep.yaml", "--quiet"], cwd=tmp_path, env=clean_env(), check=True,
                   stdout=subprocess.DEVNULL, timeout=LIMIT_S)
    seconds = time.monotonic() - began
    shown = subprocess.run([drover, "sweep", "show", "digits", "--json"], cwd=tmp_path, env=clean_env(), check=True,
                           capture_output=True, text=True, timeout=LIMIT_S)
    sweep = json.loads(shown.stdout)
    assert len(sweep["trials"]) == 12
    assert {t["state"] for t in sweep["trials"]} == {"done", "pruned"}  # none failed, and the hopeless were stopped
    assert sweep["best"]["value"] >= 0.98
    assert SANITIZED or seconds < 60  # 7 on two cores that have nothing else to do


def test_the_search_file_spends_its_epochs_on_what_promises_most(tmp_path):
    (tmp_path / "examples" / "digits").mkdir(parents=True)
    (tmp_path / "examples" / "digits" / "digits").symlink_to(DIGITS)
    drover = str(BUILD / "bin" / "drover")
    subprocess.run([drover, "sweep", str(SOURCE / "search.yaml"), "--quiet"], cwd=tmp_path, env=clean_env(), check=True,
                   stdout=subprocess.DEVNULL, timeout=LIMIT_S)
    shown = subprocess.run([drover, "sweep", "show", "digits-search", "--json"], cwd=tmp_path, env=clean_env(),
                           check=True, capture_output=True, text=True, timeout=LIMIT_S)
    sweep = json.loads(shown.stdout)
    trials = sweep["trials"]
    assert len(trials) == 30 and {t["state"] for t in trials} == {"done", "pruned"}
    for p in (t["params"] for t in trials):
        assert p["hidden"] * p["batch"] <= 32768 and (p["optimizer"] == "momentum" or p["lr"] <= 0.05)
        assert ("momentum" in p) == (p["optimizer"] == "momentum")
    assert {t["steps"] for t in trials if t["state"] == "done"} == {24}
    # Which trials stop depends on the order in which they report: 217 to 380 steps were seen in 21 sweeps.
    assert sum(t["steps"] for t in trials) < 24 * 30 * 0.6
    assert sweep["best"]["value"] < 0.12


@pytest.mark.parametrize("ranks", [1, 2])
def test_five_epochs_and_five_more_are_ten(tmp_path, ranks):
    options = [*STEADY, "--dropout=0.1"]
    whole = digits(*options, "--epochs=10", ranks=ranks)
    first = digits(*options, "--epochs=5", f"--checkpoint={tmp_path}", ranks=ranks)
    second = digits(*options, "--epochs=10", f"--checkpoint={tmp_path}", "--resume", ranks=ranks)
    assert "resumed after epoch 5, step 0" in second
    assert weights(second) == weights(whole) != weights(first)
    assert curve(first) + curve(second) == curve(whole)


def test_killed_again_and_again_it_ends_with_the_same_weights(tmp_path):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    options = ["--epochs=30", "--hidden=64,32", "--seed=4"]
    whole = digits(*options)
    kept = [*options, f"--checkpoint={tmp_path}", "--checkpoint-every=1", "--resume"]
    kills = 0
    while True:
        with started([DIGITS, *kept]) as p:
            for _ in range(rng.randint(2, 9)):  # lines, and so epochs; somewhere after them it is killed
                if not p.stdout.readline():
                    break
            else:
                p.kill()
                kills += 1
            rest = p.stdout.read()
            p.wait(LIMIT_S)
        if p.returncode == 0:
            break
        assert p.returncode == -signal.SIGKILL
    assert kills > 1
    last = digits(*kept)  # there is nothing left to do
    assert weights(last) == weights(whole), rest


def test_killed_while_it_writes_a_checkpoint_it_goes_on_from_the_one_before(tmp_path):
    options = [*STEADY, f"--checkpoint={tmp_path}", "--checkpoint-every=1"]
    digits(*options, "--epochs=2")
    size = (tmp_path / "digits.ckpt").stat().st_size

    def short():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))  # past it, SIGXFSZ
    killed = subprocess.run([str(DIGITS), *options, "--epochs=4", "--resume"], env=clean_env(), capture_output=True,
                            preexec_fn=short, timeout=LIMIT_S, check=False)
    assert killed.returncode == -signal.SIGXFSZ
    assert [p.stat().st_size for p in tmp_path.glob("digits.ckpt.*")] == [size // 2]
    resumed = digits(*options, "--epochs=4", "--resume")
    assert "resumed after epoch 2, step 0" in resumed
    assert weights(resumed) == weights(digits(*STEADY, "--epochs=4"))


def test_a_disk_that_is_full_ends_it_with_an_error_and_leaves_the_checkpoint_before(tmp_path):
    options = [*STEADY, f"--checkpoint={tmp_path}", "--checkpoint-every=1", "--resume"]
    digits(*options, "--epochs=2")
    path = tmp_path / "digits.ckpt"
    before = path.read_bytes()

    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, len(before) // 2))
    for epochs in (3, 9):  # the last checkpoint, and one that training goes past
        done = subprocess.run([str(DIGITS), *options, f"--epochs={epochs}"], env=clean_env(), capture_output=True,
                              text=True, preexec_fn=full, restore_signals=False,  # Python ignores SIGXFSZ
                              timeout=LIMIT_S, check=False)
        assert done.returncode == 1
        assert f"checkpoint '{path}': {os.strerror(errno.EFBIG)}" in done.stderr and "weights" not in done.stdout
        assert list(tmp_path.iterdir()) == [path] and path.read_bytes() == before


def test_a_damaged_checkpoint_is_named_and_refused(tmp_path):
    options = [*STEADY, "--epochs=2", f"--checkpoint={tmp_path}", "--resume"]
    digits(*options)
    path = tmp_path / "digits.ckpt"
    good = path.read_bytes()
    middle = len(good) // 2
    for bad in (good[:-1], good[:20], b"", good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1:]):
        path.write_bytes(bad)
        done = finish([DIGITS, *options])
        assert done.returncode == 1
        assert str(path) in done.stderr and "damaged" in done.stderr
        assert path.read_bytes() == bad
    path.write_bytes(good)


@pytest.mark.parametrize("option, name, was, now", [
    ("--hidden=32,64", "hidden", "64,32", "32,64"), ("--optimizer=sgd", "optimizer", "momentum", "sgd"),
    ("--activation=gelu", "activation", "relu", "gelu"), ("--lr=0.1", "lr", "0.05", "0.1"),
    ("--momentum=0.8", "momentum", "0.9", "0.8"), ("--weight_decay=0", "weight_decay", "0.01", "0"),
    ("--dropout=0.5", "dropout", "0.2", "0.5"), ("--label_smoothing=0", "label_smoothing", "0.05", "0"),
    ("--batch=60", "batch", "50", "60"), ("--warmup=1", "warmup", "20", "1"), ("--schedule=cosine", "schedule", "constant", "cosine"),
    ("--augment=false", "augment", "1", "0"), ("--seed=2", "seed", "1", "2"),
])
def test_a_checkpoint_of_another_option_is_refused_and_the_option_is_named(kept, option, name, was, now):
    done = finish([DIGITS, *STEADY, "--epochs=2", f"--checkpoint={kept}", "--resume", option])
    assert done.returncode == 1
    assert done.stderr == f"digits: rank 0: checkpoint '{kept}/digits.ckpt': it has {name} {was}, the options say {now} " \
                          f"(try: --{name}={was})\n"


@pytest.fixture(scope="module", name="kept")
def one_epoch(tmp_path_factory):
    directory = tmp_path_factory.mktemp("kept")
    digits(*STEADY, "--epochs=1", f"--checkpoint={directory}")
    return directory


def test_a_checkpoint_of_other_images_is_refused(kept, tmp_path):
    lines = (SOURCE / "data" / "digits.csv").read_text().splitlines(keepends=True)
    (tmp_path / "few.csv").write_text("".join(lines[:1000]))
    done = finish([DIGITS, *STEADY, f"--checkpoint={kept}", "--resume", f"--data={tmp_path}/few.csv"])
    assert done.returncode == 1 and "it has 1437 images to train, here are 800" in done.stderr


SLOW_RANK = ["env", f"LD_PRELOAD={BUILD}/tests/fault/preload/slow_rank.so"]


def test_a_slow_disk_of_rank_0_does_not_end_the_others(tmp_path):
    """A checkpoint takes a second, and a limit on a wait of a minute 0.2 s."""
    options = [*STEADY, "--epochs=4", "--checkpoint-every=1", f"--checkpoint={tmp_path}"]
    done = finish([BUILD / "bin" / "drover", "run", "-np", 2, "--", *SLOW_RANK, "SLOW_RANK_MS=500", DIGITS, *options])
    assert done.returncode == 0, done.stderr
    assert weights(done.stdout) == weights(digits(*STEADY, "--epochs=4", ranks=2))
    assert "resumed after epoch 4" in digits(*options, "--resume", ranks=2)


def test_a_step_that_takes_long_is_completed_after_sigterm_and_saved(tmp_path):
    """A step takes about a second, and an alarm of 10 s 0.03 s."""
    options = ["--hidden=2048,2048", "--batch=1437", f"--checkpoint={tmp_path}"]
    with subprocess.Popen([*SLOW_RANK, DIGITS, *options], env=clean_env(), text=True, stdout=subprocess.PIPE) as p:
        line = p.stdout.readline()
        p.terminate()
        said = line + p.stdout.read()
    assert p.returncode == 128 + signal.SIGTERM
    assert "stopped on request; saved" in said and (tmp_path / "digits.ckpt").exists()


def stopped_at(said):
    """(epoch, step) of the last line."""
    return tuple(map(int, re.search(r"^weights .* after epoch (\d+), step (\d+)$", said, re.M).groups()))


def test_sigterm_saves_and_ends_and_training_goes_on_from_there(tmp_path):
    base = [*STEADY, "--hidden=512,512"]
    options = [*base, f"--checkpoint={tmp_path}", "--resume"]
    for turn in range(20):  # until it was hit within an epoch: right after a line, it is between two
        with started([DIGITS, *options, "--epochs=1000000", "--checkpoint-every=1000000"]) as p:
            next(line for line in p.stdout if line.startswith("epoch"))
            time.sleep(turn * 0.003)
            p.terminate()
            said = p.stdout.read()
            assert p.wait(LIMIT_S) == 128 + signal.SIGTERM
        assert "stopped on request; saved" in said
        epoch, step = stopped_at(said)
        if step > 0:
            break
    assert step > 0
    resumed = digits(*options, f"--epochs={epoch + 1}")
    assert f"resumed after epoch {epoch}, step {step}" in resumed
    whole = digits(*base, f"--epochs={epoch + 1}")
    assert weights(resumed) == weights(whole)
    assert curve(resumed) == curve(whole)[epoch:]  # also the loss of the epoch that was cut


def test_sigterm_to_one_rank_ends_all_after_the_same_step(tmp_path):
    options = [*STEADY, f"--checkpoint={tmp_path}", "--resume"]
    script = f'echo $$ >{tmp_path}/pid.tmp.$OMPI_COMM_WORLD_RANK; mv {tmp_path}/pid.tmp.$OMPI_COMM_WORLD_RANK ' \
             f'{tmp_path}/pid.$OMPI_COMM_WORLD_RANK; exec "$@"'
    line = [*MPIRUN, "-np", "2", "sh", "-c", script, "sh", str(DIGITS), *options, "--epochs=1000000"]
    with started(line, stderr=subprocess.PIPE) as p:
        p.stdout.readline()
        wait_until((tmp_path / "pid.1").exists, "pid.1")
        os.kill(int((tmp_path / "pid.1").read_text()), signal.SIGTERM)
        said, complaints = p.communicate(timeout=LIMIT_S)
    assert p.returncode == 128 + signal.SIGTERM, complaints
    assert "stopped on request; saved" in said
    assert "not complete after" not in complaints  # no rank was left waiting
    epochs = stopped_at(said)[0] + 1
    assert weights(digits(*options, f"--epochs={epochs}", ranks=2)) == \
        weights(digits(*STEADY, f"--epochs={epochs}", ranks=2))


def test_drover_hears_the_metrics_and_stops_it(tmp_path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    env = {"DROVER_REPORT_FD": str(theirs.fileno()), "DROVER_CKPT_DIR": str(tmp_path), "DROVER_RESUME": "1"}
    with ours, started([DIGITS, *STEADY, "--epochs=1000000"], clean_env(**env), pass_fds=[theirs.fileno()]) as p:
        theirs.close()
        ours.settimeout(LIMIT_S)
        told = [json.loads(ours.recv(65536)) for _ in range(3)]
        ours.send(b'{"stop":true}')
        while packet := ours.recv(65536):
            told.append(json.loads(packet))
        said = p.stdout.read()
        assert p.wait(LIMIT_S) == 0
    assert [m["step"] for m in told] == list(range(1, len(told) + 1))
    assert [(m["loss"], m["val_loss"], m["accuracy"]) for m in told] == \
        [pytest.approx(row, abs=1e-4) for row in curve(said)]
    assert "stopped on request; saved" in said
    again = digits(*STEADY, f"--epochs={len(told) + 1}", DROVER_CKPT_DIR=str(tmp_path), DROVER_RESUME="1")
    assert f"resumed after epoch {len(told)}, step " in again
    assert weights(again) == weights(digits(*STEADY, f"--epochs={len(told) + 1}"))


def test_a_loss_that_is_no_number_ends_it_and_leaves_the_checkpoint(tmp_path):
    done = finish([DIGITS, "--optimizer=sgd", "--lr=1000", f"--checkpoint={tmp_path}", "--checkpoint-every=1"])
    assert done.returncode == 1
    assert "not finite" in done.stderr and "--lr" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_rank_that_cannot_save_ends_the_job(tmp_path):
    (tmp_path / "file").write_text("")
    began = time.monotonic()
    done = finish(under_mpirun(2, [DIGITS, *STEADY, "--checkpoint-every=1", f"--checkpoint={tmp_path}/file"], {}))
    assert done.returncode == 1
    assert f"{tmp_path}/file/digits.ckpt" in done.stderr
    assert time.monotonic() - began < 40  # and not only when the other's minute is over


@pytest.mark.parametrize("option, says", [
    ("--lrr=0.1", "unknown option '--lrr'\n  try: --lr\n"),
    ("--weight-dcay=0.1", "try: --weight_decay"),
    ("--lr", "--lr needs a value"),
    ("--lr=fast", "--lr 'fast'"),
    ("--batch=0", "--batch '0'"),
    ("--batch=1.5", "--batch '1.5'"),
    ("--hidden=64,0", "--hidden '64,0'"),
    ("--activation=swish", "one of relu tanh gelu"),
    ("--dropout=1", "--dropout '1'"),
    ("--augment=maybe", "--augment 'maybe'"),
    ("extra", "unexpected argument 'extra'"),
])
def test_a_wrong_command_line_is_refused_before_anything_starts(option, says):
    done = finish([DIGITS, option])
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_options_may_be_written_as_a_sweep_writes_them():
    a = digits("--epochs", "1", "--hidden", "32,16", "--weight-decay", "0.001", "--augment", "--batch", "100")
    b = digits("--epochs=1", "--hidden=[32, 16]", "--weight_decay=0.001", "--augment=True", "--batch=100.0")
    assert a == b


def test_a_file_that_is_missing_or_no_data_is_named(tmp_path):
    for path in (tmp_path / "none.csv", ROOT / "LICENSE"):
        done = finish([DIGITS, f"--data={path}"])
        assert (done.returncode, done.stdout) == (2, "")
        assert str(path) in done.stderr
    assert "--data=FILE" in finish([DIGITS, f"--data={tmp_path}/none.csv"]).stderr


# ---- the GPU's part -------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module", name="on_fake_gpu")
def digits_on_fake_gpu(tmp_path_factory):
    """The program next to the CUDA code that runs on the host, in a folder of its own."""
    library = BUILD / "tests" / "cudahost" / "mlp_cuda.so"
    if not library.exists():
        pytest.skip("built without CUDA's headers")
    d = tmp_path_factory.mktemp("fake_gpu")
    shutil.copy(library, d)
    shutil.copy(DIGITS, d)
    return d / "digits"


KINDS = [["--activation=gelu", "--optimizer=adamw", "--dropout=0.3", "--hidden=70,33,50", "--batch=50"],
         ["--activation=tanh", "--optimizer=momentum", "--lr=0.05", "--label-smoothing=0.2"],
         ["--activation=relu", "--optimizer=sgd", "--lr=0.05", "--hidden=32"]]


def gpu_env(**more):
    return {"LD_LIBRARY_PATH": str(BUILD / "lib"), "DROVER_PLUGIN_DIR": str(BUILD / "lib" / "drover"), **more}


@pytest.mark.parametrize("options", KINDS, ids=["gelu", "tanh", "relu"])
def test_the_gpus_source_computes_what_the_cpus_does(on_fake_gpu, options):
    gpu = curve(digits(*options, "--epochs=4", "--device=cuda", program=on_fake_gpu, **gpu_env()))
    assert apart(gpu, curve(digits(*options, "--epochs=4", "--device=cpu"))) <= 1e-5


def test_two_gpu_ranks_reduce_by_nccl_or_by_the_host(on_fake_gpu, tmp_path):
    if not FAKE_NCCL.exists():
        pytest.skip("built without NCCL's and CUDA's headers")
    options = [*STEADY, "--epochs=3"]
    alone = curve(digits(*options))
    fake = gpu_env(DROVER_NCCL_LIB=str(FAKE_NCCL), DROVER_CUDART_LIB=str(FAKE_NCCL), FAKE_NCCL_DIR=str(tmp_path),
                   FAKE_GPUS="2")
    gpu = [*options, "--device=cuda"]
    assert apart(alone, curve(digits(*gpu, "--comm=nccl", program=on_fake_gpu, ranks=2, **fake))) <= 1e-4
    assert apart(alone, curve(digits(*gpu, "--comm=mpi", program=on_fake_gpu, ranks=2, **fake))) <= 1e-4
    missing = {**fake, "DROVER_NCCL_LIB": str(tmp_path / "none.so")}
    assert apart(alone, curve(digits(*gpu, program=on_fake_gpu, ranks=2, **missing))) <= 1e-4


def test_without_a_gpu_the_cpu_is_taken_or_the_error_is_readable():
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU")
    assert digits("--epochs=1", "--device=auto") == digits("--epochs=1", "--device=cpu")
    done = finish([DIGITS, "--epochs=1", "--device=cuda"])
    assert done.returncode == 1
    assert re.match(r"digits: --device cuda: (no GPU|built without CUDA)", done.stderr)


@pytest.mark.parametrize("options", KINDS, ids=["gelu", "tanh", "relu"])
def test_a_gpu_follows_the_cpus_curve(options):
    if not Path("/dev/nvidiactl").exists() or not (DIGITS.parent / "mlp_cuda.so").exists():
        pytest.skip("no GPU, or built without CUDA")
    gpu = curve(digits(*options, "--epochs=3", "--device=cuda"))
    assert apart(gpu, curve(digits(*options, "--epochs=3", "--device=cpu"))) <= 1e-3
