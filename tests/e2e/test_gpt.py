"""The example of examples/gpt: it computes what PyTorch computes; ranks, accumulation, recomputation and ZeRO change
nothing but the speed and the memory; and whatever ends it, it continues where it was. DROVER_TEST_GPT_KILLS and DROVER_TEST_GPT_TERMS say how many signals
are sent at random moments, DROVER_TEST_SEED which moments."""
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import time

import pytest
from kit_ranks import BUILD, ROOT, clean_env

GPT = BUILD / "examples" / "gpt" / "gpt"
SOURCE = ROOT / "examples" / "gpt"
DROVER = BUILD / "bin" / "drover"
LIMIT_S = 100
SMALL = ["--layers=1", "--channels=32", "--context=32", "--steps=60", "--log-every=1"]
KILLS = int(os.environ.get("DROVER_TEST_GPT_KILLS", "4"))
TERMS = int(os.environ.get("DROVER_TEST_GPT_TERMS", "2"))


def command(*options, ranks=1):
    return [str(a) for a in ([] if ranks == 1 else [DROVER, "run", "-np", ranks, "--"])] + [str(GPT), *options]


def finish(argv, **env):
    return subprocess.run(argv, env=clean_env(**env), text=True, errors="replace", capture_output=True, timeout=LIMIT_S,
                          check=False)


def gpt(*options, ranks=1, **env):
    """Runs to a good end -> what it printed."""
    done = finish(command(*options, ranks=ranks), **env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def curve(text):
    """The loss of each step."""
    return [float(x) for x in re.findall(r"^step +\d+  loss (\S+)", text, re.M)]


def number(text, before, after):
    return float(re.search(rf"{re.escape(before)}([0-9.]+){re.escape(after)}", text).group(1))


def weights(text):
    return re.search(r"^weights ([0-9a-f]{16}) after step", text, re.M).group(1)


def apart(a, b):
    assert len(a) == len(b)
    return max(abs(x - y) for x, y in zip(a, b))


# ---- the model ------------------------------------------------------------------------------------------------------

@pytest.fixture(name="peer")
def peer_in_torch():
    np = pytest.importorskip("numpy", reason="the peer needs numpy")
    pytest.importorskip("torch", reason="the peer is PyTorch")
    import gpt_peer
    return gpt_peer, np


def differences(peer, path, steps, **how):
    """Of each step's loss, absolute, and of its gradient, relative to its length."""
    module, np = peer
    model, dump = module.load(path)
    assert len(dump.steps) == 100
    losses, gradients = [], []
    for step, (loss, gradient) in zip(dump.steps, module.train(model, dump, steps, 100, **how)):
        flat = np.concatenate([g.numpy().ravel() for g in gradient])
        losses.append(abs(loss - step["loss"]))
        gradients.append(np.linalg.norm(flat - step["gradient"]) / np.linalg.norm(flat))
    return losses, gradients


def test_peer_has_the_same_loss_and_gradient_at_each_step(peer, tmp_path):
    gpt(f"--dump={tmp_path}/dump", "--quiet")
    losses, _ = differences(peer, tmp_path / "dump", 100)
    assert len(losses) == 100 and max(losses) < 1e-4
    # Two trainings on their own drift apart by what rounding adds up to, so the gradients are compared at equal weights.
    losses, gradients = differences(peer, tmp_path / "dump", 100, follow=True)
    # How much rounding there is depends on the processor: the library has other kernels for each.
    assert len(losses) == 100 and max(losses) < 1e-5 and max(gradients) < 1e-4


def test_peer_agrees_with_bf16_within_its_rounding(peer, tmp_path):
    gpt(f"--dump={tmp_path}/dump", "--quiet", "--precision=bf16")
    losses, gradients = differences(peer, tmp_path / "dump", 20)
    assert max(losses) < 2e-2 and max(gradients) < 2 ** -6
    assert min(gradients) > 1e-4  # it does compute in bf16


def test_it_learns_whatever_the_seed():
    found = [number(gpt(f"--seed={seed}"), "\nval_loss ", "\n") for seed in range(1, 6)]
    assert statistics.median(found) < 3.1
    assert len(set(found)) == 5


# ---- techniques that change nothing but speed and memory ---------------------------------------------------------------

@pytest.fixture(scope="module", name="alone")
def one_rank():
    return gpt("--batch=16", "--log-every=1")


@pytest.mark.parametrize("ranks, options", [
    (2, ["--batch=8"]),
    (1, ["--batch=8", "--accumulate=2"]),
    (2, ["--batch=8", "--zero=1"]),
    (2, ["--batch=4", "--accumulate=2", "--zero=1", "--recompute"]),
    (1, ["--batch=auto", "--global-batch=16", "--batch-max=5"]),
], ids=["ranks", "accumulate", "zero", "all", "auto"])
def test_the_curve_does_not_depend_on_how_a_batch_is_computed(alone, ranks, options):
    other = gpt(*options, "--log-every=1", ranks=ranks)
    assert len(curve(alone)) == 100
    assert apart(curve(alone), curve(other)) < 1e-5
    if ranks == 2:
        assert number(other, "; ", " % of the communication is hidden") > 0
    if "--batch=auto" in options:
        assert ", 4 sequences at once" in other  # the largest divisor of 16 that is at most 5


def test_recomputation_is_bit_equal_and_halves_the_activations():
    for precision in ("fp32", "bf16"):
        options = ["--layers=4", "--steps=8", "--log-every=1", f"--precision={precision}"]
        stored, recomputed = gpt(*options), gpt(*options, "--recompute")
        assert curve(stored) == curve(recomputed) and weights(stored) == weights(recomputed)
        sizes = [number(text, "memory ", " bytes of activations") for text in (stored, recomputed)]
        assert sizes[1] <= sizes[0] / 2
        used = [number(text, "optimizer state, ", " bytes of the device in use") for text in (stored, recomputed)]
        assert used[0] - used[1] == pytest.approx(sizes[0] - sizes[1], rel=0.01) and used[1] > sizes[1]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_zero_halves_the_optimizer_and_gives_the_same_weights(precision):
    options = [*SMALL, "--steps=10", "--batch=8", f"--precision={precision}"]
    whole, shared = gpt(*options, ranks=2), gpt(*options, "--zero=1", ranks=2)
    assert weights(whole) == weights(shared)
    sizes = [number(text, "activations, ", " bytes of optimizer state") for text in (whole, shared)]
    assert sizes[1] == sizes[0] / 2


def test_a_share_with_padding_trains_on_three_ranks(tmp_path):
    options = [*SMALL, "--steps=6", "--global-batch=12", "--batch=4"]
    alone = gpt(*options)
    three = gpt(*options, "--zero=1", f"--checkpoint={tmp_path}", ranks=3)
    assert apart(curve(alone), curve(three)) < 1e-5
    assert "resumed after step 6" in gpt(*options, "--batch=6", f"--checkpoint={tmp_path}", "--resume", ranks=2)


def test_the_profile_names_ten_operations():
    rows = re.findall(r"^profile  (\S.*?) +(\d+) calls +([0-9.]+) ms +[0-9.]+ %$",
                      gpt("--steps=3", "--profile=2"), re.M)
    assert len(rows) == 10 and all(int(calls) % 2 == 0 for _, calls, _ in rows)
    times = [float(ms) for _, _, ms in rows]
    assert times == sorted(times, reverse=True) and times[0] > 0


# ---- ends and continuations --------------------------------------------------------------------------------------------

def test_sigterm_saves_and_training_continues_on_any_number_of_ranks(tmp_path):
    base = [*SMALL, "--global-batch=16", "--batch=8", "--steps=800", "--checkpoint-every=1000"]
    keep = [*base, f"--checkpoint={tmp_path}/two", "--resume"]
    with subprocess.Popen(command(*keep, ranks=2), env=clean_env(), text=True,
                          stdout=subprocess.PIPE) as p:
        first = [p.stdout.readline() for _ in range(5)]
        p.terminate()
        said = "".join(first) + p.stdout.read()
    assert p.returncode == 128 + signal.SIGTERM, said
    assert "stopped on request; saved" in said
    step = int(re.search(r"^weights .* after step (\d+)$", said, re.M).group(1))
    assert 5 <= step < 800
    shutil.copytree(tmp_path / "two", tmp_path / "one")
    whole = gpt(*base, ranks=2)
    same = gpt(*keep, ranks=2)
    assert f"resumed after step {step}" in same
    assert weights(same) == weights(whole) and curve(said) + curve(same) == curve(whole)
    other = gpt(*base, f"--checkpoint={tmp_path}/one", "--resume")
    assert apart(curve(other)[:50], curve(whole)[step:][:50]) < 1e-5


@pytest.mark.parametrize("what, times", [(signal.SIGKILL, KILLS), (signal.SIGTERM, TERMS)], ids=["kill", "term"])
def test_a_checkpoint_survives_signals_at_random_moments(tmp_path, what, times):
    seed = int(os.environ.get("DROVER_TEST_SEED", random.randrange(1 << 30)))
    print(f"DROVER_TEST_SEED={seed}")
    rng = random.Random(seed)
    options = [*SMALL, "--steps=300", "--quiet", "--checkpoint-every=3"]
    whole = weights(gpt(*SMALL, "--steps=300"))
    began = time.monotonic()
    gpt(*options, f"--checkpoint={tmp_path}/timed")
    span = time.monotonic() - began
    hits = trainings = 0
    while hits < times:
        directory = tmp_path / str(trainings)
        with subprocess.Popen(command(*options, f"--checkpoint={directory}", "--resume"), env=clean_env()) as p:
            time.sleep(rng.uniform(0, 0.6 * span))
            p.send_signal(what)
        assert p.returncode in (0, -what, 128 + what)
        hits += p.returncode != 0
        if (directory / "gpt.ckpt").exists():
            gpt("--eval", *SMALL, f"--checkpoint={directory}")
        if p.returncode == 0 or hits == times or hits % 4 == 3:
            gpt(*options, f"--checkpoint={directory}", "--resume")
            assert weights(gpt("--eval", *SMALL, f"--checkpoint={directory}")) == whole
            trainings += 1


def test_a_checkpoint_of_other_options_is_refused(tmp_path):
    options = [*SMALL, "--steps=5", f"--checkpoint={tmp_path}"]
    gpt(*options)
    for other in ("--seed=2", "--channels=48", "--lr=0.1", "--batch=8"):
        done = finish(command(*options, "--resume", other))
        assert (done.returncode, str(tmp_path) in done.stderr) == (1, True), done.stderr
    done = finish(command("--eval", "--channels=64", f"--checkpoint={tmp_path}"))
    assert done.returncode == 1 and "another size" in done.stderr


def test_a_loss_that_is_not_finite_ends_it_and_keeps_the_checkpoint(tmp_path):
    done = finish(command(*SMALL, "--lr=1000", "--warmup=0", f"--checkpoint={tmp_path}", "--checkpoint-every=1000",
                          "--decay=100"))
    assert done.returncode == 1 and "not finite" in done.stderr and "--lr" in done.stderr
    assert not (tmp_path / "gpt.ckpt").exists()


def test_the_sweep_stops_poor_trials_early(tmp_path):
    (tmp_path / "examples" / "gpt").mkdir(parents=True)
    (tmp_path / "examples" / "gpt" / "gpt").symlink_to(GPT)
    subprocess.run([DROVER, "sweep", SOURCE / "sweep.yaml", "--quiet"], cwd=tmp_path, env=clean_env(), check=True,
                   stdout=subprocess.DEVNULL, timeout=LIMIT_S)
    shown = subprocess.run([DROVER, "sweep", "show", "gpt", "--json"], cwd=tmp_path, env=clean_env(), check=True,
                           capture_output=True, text=True, timeout=LIMIT_S)
    sweep = json.loads(shown.stdout)
    assert len(sweep["trials"]) == 16
    assert {t["state"] for t in sweep["trials"]} == {"done", "pruned"}  # none failed
    assert sweep["best"]["value"] < 3.1


# ---- the program -------------------------------------------------------------------------------------------------------

def test_sample_continues_a_prompt(tmp_path):
    gpt(*SMALL, f"--checkpoint={tmp_path}", "--quiet")

    def sample(*options):
        done = subprocess.run(command("sample", f"--checkpoint={tmp_path}", "--prompt=Of Man", *options),
                              env=clean_env(), capture_output=True, check=True, timeout=LIMIT_S)
        return done.stdout
    text = sample("--length=100")
    assert text.startswith(b"Of Man") and len(text) == 6 + 100 + 1
    assert text == sample("--length=100") != sample("--length=100", "--seed=2")
    assert sample("--length=50", "--temperature=0") == sample("--length=50", "--temperature=0", "--seed=2")
    done = finish(command("sample", f"--checkpoint={tmp_path}/none"))
    assert done.returncode == 1 and "no checkpoint" in done.stderr


def test_without_the_gpu_part_cuda_is_refused_and_named(tmp_path):
    alone = shutil.copy(GPT, tmp_path)
    env = {"LD_LIBRARY_PATH": str(BUILD / "lib")}
    done = finish([alone, "--device=cuda", "--steps=1"], **env)
    assert done.returncode == 1
    assert "gpt_cuda.so" in done.stderr and "--device cuda" in done.stderr
    assert finish([alone, "--steps=1"], **env).returncode == 0


@pytest.mark.parametrize("option, says", [
    ("--lrr=0.1", "unknown option '--lrr'\n  try: --lr\n"),
    ("--lr", "--lr needs a value"),
    ("--lr=fast", "--lr 'fast'"),
    ("--steps=0", "--steps '0'"),
    ("--batch=1.5", "--batch '1.5'"),
    ("--precision=fp16", "one of fp32 bf16"),
    ("--channels=40", "multiple of 16"),
    ("--heads=3", "multiple of 16 and of --heads"),
    ("--zero=2", "--zero '2'"),
    ("--global-batch=24", "--global-batch 24"),
    ("--global-batch=32 --accumulate=3", "--batch * --accumulate * 1 ranks"),
    ("--batch=auto --accumulate=2", "try: --global-batch"),
    ("--batch-min=65", "--batch-min"),
    ("--eval", "--checkpoint"),
    ("--context=30000", "too few for --context 30000"),
    ("--data=/none/text", "/none/text"),
    ("extra", "unexpected argument 'extra'"),
])
def test_a_wrong_command_line_is_refused_before_anything_starts(option, says):
    done = finish(command(*option.split()))
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_options_may_be_written_as_a_sweep_writes_them():
    a = gpt("--steps", "3", "--log_every", "1.0", "--batch=4.0", "--recompute=True", "--layers=1")
    b = gpt("--steps=3", "--log-every=1", "--batch=4", "--recompute", "--layers=1")
    assert curve(a) == curve(b) and weights(a) == weights(b)
