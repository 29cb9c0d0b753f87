"""The example of examples/gpt: it computes what PyTorch computes; ranks, accumulation, recomputation and ZeRO change
nothing but the speed and the memory; and whatever ends it, it continues where it was. DROVER_TEST_GPT_KILLS and DROVER_TEST_GPT_TERMS say how many signals
are sent at random moments, DROVER_TEST_SEED which moments."""
import array
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import time

import pytest
from kit_ranks import BUILD, ROOT, clean_env

GPT = BUILD / "examples" / "gpt" / "gpt"
SOURCE = ROOT / "examples" / "gpt"
DROVER = BUILD / "bin" / "drover"
LIMIT_S = 100
# At the default learning rate, a single step in a hundred has a much larger loss, which amplifies rounding: where curves are
# compared, the rate is smaller.
CALM = "--lr=0.0005"
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
    gpt(f"--dump={tmp_path}/dump", "--quiet", CALM)
    losses, _ = differences(peer, tmp_path / "dump", 100, lr=0.0005)
    assert len(losses) == 100 and max(losses) < 1e-4
    # Two trainings on their own drift apart by what rounding adds up to, so the gradients are compared at equal weights.
    losses, gradients = differences(peer, tmp_path / "dump", 100, follow=True, lr=0.0005)
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
    return gpt("--batch=16", "--log-every=1", CALM)


@pytest.mark.parametrize("ranks, options", [
    (2, ["--batch=8"]),
    (1, ["--batch=8", "--accumulate=2"]),
    (2, ["--batch=8", "--zero=1"]),
    (2, ["--batch=4", "--accumulate=2", "--zero=1", "--recompute"]),
    (1, ["--batch=auto", "--global-batch=16", "--batch-max=5"]),
], ids=["ranks", "accumulate", "zero", "all", "auto"])
def test_the_curve_does_not_depend_on_how_a_batch_is_computed(alone, ranks, options):
    other = gpt(*options, "--log-every=1", CALM, ranks=ranks)
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


def profile(*options):
    """(name, calls, ms) of the slowest operations."""
    return re.findall(r"^profile  (\S.*?) +(\d+) calls +([0-9.]+) ms +[0-9.]+ %$", gpt(*options), re.M)


def test_the_profile_leaves_the_first_step_out():
    """In it, libraries load their code."""
    assert profile("--steps=1", "--profile=5") == []
    once_per_layer = re.compile(r"attend|linear(_back)? (qkv|up|down)")  # which of them are slowest is the machine's matter
    calls = {int(n) for name, n, _ in profile("--steps=2", "--profile=5") if once_per_layer.fullmatch(name)}
    assert calls == {2}  # layers


def test_the_profile_names_ten_operations():
    rows = profile("--steps=3", "--profile=2")
    assert len(rows) == 10 and all(int(calls) % 2 == 0 for _, calls, _ in rows)
    times = [float(ms) for _, _, ms in rows]
    assert times == sorted(times, reverse=True) and times[0] > 0


# ---- ends and continuations --------------------------------------------------------------------------------------------

def test_sigterm_saves_and_training_continues_on_any_number_of_ranks(tmp_path):
    base = [*SMALL, CALM, "--global-batch=16", "--batch=8", "--steps=800", "--checkpoint-every=1000"]
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


@pytest.mark.parametrize("option, name, was, now", [
    ("--layers=2", "layers", "1", "2"), ("--channels=48", "channels", "32", "48"), ("--heads=2", "heads", "4", "2"),
    ("--context=16", "context", "32", "16"), ("--batch=8", "global-batch", "16", "8"), ("--steps=7", "steps", "5", "7"),
    ("--warmup=1", "warmup", "20", "1"), ("--seed=2", "seed", "1", "2"), ("--lr=0.1", "lr", "0.002", "0.1"),
    ("--decay=0", "decay", "0.1", "0"),
])
def test_a_checkpoint_of_another_option_is_refused_and_the_option_is_named(kept, option, name, was, now):
    done = finish(command(*SMALL, "--steps=5", f"--checkpoint={kept}", "--resume", option))
    assert done.returncode == 1
    says = f"checkpoint '{kept}/gpt.ckpt': it has {name} {was}, the options say {now} (try: --{name}={was})\n"
    assert done.stderr == f"gpt: rank 0: {says}"
    done = finish(command(*SMALL, f"--checkpoint={kept}", "--eval", option))
    if name in ("layers", "channels", "heads", "context"):
        assert done.returncode == 1 and says in done.stderr and "val_loss" not in done.stdout
    else:  # how it was trained makes no difference to what it is
        assert done.returncode == 0 and "val_loss" in done.stdout


@pytest.fixture(scope="module", name="kept")
def five_steps(tmp_path_factory):
    directory = tmp_path_factory.mktemp("kept")
    gpt(*SMALL, "--steps=5", f"--checkpoint={directory}")
    return directory


def test_a_checkpoint_resumes_on_the_same_text_only_and_is_evaluated_on_any(kept, tmp_path):
    text = tmp_path / "text"
    text.write_bytes(b"Of Man's first disobedience, " * 100)
    options = [*SMALL, "--steps=5", f"--checkpoint={kept}", f"--data={text}"]
    done = finish(command(*options, "--resume"))
    assert done.returncode == 1 and "it has 465072 tokens of data, here are 2900" in done.stderr
    assert number(gpt(*options, "--eval"), "val_loss ", "\n") > 1


def test_a_checkpoint_of_an_older_format_is_named(kept, tmp_path):
    raw = (kept / "gpt.ckpt").read_bytes()
    (tmp_path / "gpt.ckpt").write_bytes(b"CKPT0001" + raw[8:])
    for options in (["--resume", *SMALL], ["--eval", *SMALL], ["sample"]):
        done = finish(command(*sorted(options, key=lambda o: o != "sample"), f"--checkpoint={tmp_path}"))
        assert done.returncode == 1 and "it has version 0001 of the format, and this program reads 0002" in done.stderr


def test_only_rank_0_keeps_a_copy_of_the_state_on_the_host(tmp_path):
    """The peak memory of each rank: three floats per parameter are the copy."""
    script = f"""
import os, resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
rank = os.environ["RANK"]
open("{tmp_path}/" + rank, "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))
"""
    shape = ["--layers=4", "--channels=512", "--context=16", "--steps=1", "--batch=1", "--quiet"]
    argv = [DROVER, "run", "-np", 2, "--", "/usr/bin/python3", "-c", script, GPT, *shape]
    done = finish([str(a) for a in argv])
    assert done.returncode == 0, done.stderr
    first, second = (int((tmp_path / str(rank)).read_text()) for rank in range(2))
    copy = 12 * ((256 + 16 + 2) * 512 + 4 * (12 * 512 + 13) * 512)
    assert first - second > 0.8 * copy


# ---- GPT-2's recipe ----------------------------------------------------------------------------------------------------

def tensors(raw, layers, channels, context, vocabulary=256):
    """The arrays of the weights in the order of model.h, by name."""
    flat = pytest.importorskip("numpy").frombuffer(raw, "<f4")
    c, found, at = channels, {}, 0
    sizes = {"wte": vocabulary * c, "wpe": context * c, "gain": c, "bias": c}
    for i in range(layers):
        sizes |= {f"{name}{i}": n for name, n in dict(gain1=c, bias1=c, qkv=3 * c * c, qkv_bias=3 * c, out=c * c, out_bias=c, gain2=c,
                                                      bias2=c, up=4 * c * c, up_bias=4 * c, down=4 * c * c, down_bias=c).items()}
    for name, n in sizes.items():
        found[name] = flat[at:at + n]
        at += n
    return found


def test_matrices_that_end_a_residual_branch_begin_smaller(tmp_path):
    gpt(*SMALL, "--layers=8", "--channels=64", "--steps=1", "--quiet", f"--dump={tmp_path}/dump")
    first = tensors((tmp_path / "dump").read_bytes(), 8, 64, 32)
    for i in range(8):
        for name in ("qkv", "up"):
            assert first[f"{name}{i}"].std() == pytest.approx(0.02, rel=0.05)
        for name in ("out", "down"):
            assert first[f"{name}{i}"].std() == pytest.approx(0.02 / 16 ** 0.5, rel=0.05)
    assert first["wte"].std() == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("ranks, options", [(1, []), (2, ["--zero=1"]), (3, ["--zero=1"]), (2, ["--zero=1", "--precision=bf16"])])
def test_matrices_and_embeddings_decay_and_nothing_else(tmp_path, ranks, options):
    """With a learning rate of 0.001 the gradient moves a weight by about 0.001 per step; a decay of 100 by a tenth."""
    gpt(*SMALL, "--layers=2", "--steps=4", "--warmup=0", "--lr=1e-3", "--decay=100", "--global-batch=6", "--batch=1", "--quiet",
        f"--checkpoint={tmp_path}", *options, ranks=ranks)
    raw = (tmp_path / "gpt.ckpt").read_bytes()
    params = (256 + 32 + 2) * 32 + 2 * (12 * 32 + 13) * 32
    last = tensors(raw[len(raw) - 8 - 12 * params:][:4 * params], 2, 32, 32)
    for name, values in last.items():
        if values.size > 4 * 32:  # a matrix
            begin = 0.02 / 2 if name[:-1] in ("out", "down") else 0.02
            assert values.std() < 0.9 * begin, name
        elif name.startswith("gain"):
            assert abs(values - 1).max() < 0.01, name
        else:
            assert abs(values).max() < 0.01, name


# ---- tokens of 16 bits -------------------------------------------------------------------------------------------------

def token_file(path, tokens, head=None):
    path.write_bytes((struct.pack("<256i", *head, *[0] * (256 - len(head))) if head else b"") + array.array("H", list(tokens)).tobytes())
    return path


@pytest.fixture(scope="module", name="words")
def numbers_of_words(tmp_path_factory):
    """The words of a text as tokens -> (file, number of different ones, file in llm.c's format). No multiple of 8."""
    text = re.findall(r"\w+|\W", (GPT.parent / "paradise_lost.txt").read_text(errors="replace"))[:60000]
    names = {word: i for i, word in enumerate(dict.fromkeys(text))}
    tokens = [names[word] for word in text]
    directory = tmp_path_factory.mktemp("tokens")
    vocabulary = len(names) + (len(names) % 8 == 0)
    assert vocabulary > 1000
    return (token_file(directory / "words.bin", tokens), vocabulary,
            token_file(directory / "llmc.bin", tokens, head=[20240520, 1, len(tokens)]))


def test_bytes_train_the_same_as_tokens_of_16_bits(tmp_path, alone):
    text = (GPT.parent / "paradise_lost.txt").read_bytes()
    same = gpt("--batch=16", "--log-every=1", CALM, "--vocabulary=256", f"--tokens={token_file(tmp_path / 'text.bin', text)}")
    assert weights(same) == weights(alone) and curve(same) == curve(alone)


def test_a_large_vocabulary_is_learned_on_any_number_of_ranks(words, tmp_path):
    file, vocabulary, llmc = words
    options = [*SMALL, "--global-batch=16", "--steps=30", "--warmup=5", f"--vocabulary={vocabulary}"]
    alone = gpt(*options, f"--tokens={file}", f"--checkpoint={tmp_path}")
    assert curve(alone)[0] == pytest.approx(math.log(vocabulary), abs=0.2) and curve(alone)[-1] < curve(alone)[0] - 1
    assert weights(gpt(*options, f"--tokens={llmc}")) == weights(alone)
    assert apart(curve(alone), curve(gpt(*options, f"--tokens={file}", "--batch=8", "--zero=1", ranks=2))) < 1e-5
    assert apart(curve(alone), curve(gpt(*options, f"--tokens={file}", "--precision=bf16"))) < 5e-2
    again = gpt(*options, f"--tokens={file}", f"--checkpoint={tmp_path}", "--eval")
    assert weights(again) == weights(alone)
    done = finish(command(*options, f"--tokens={file}", f"--checkpoint={tmp_path}", "--eval", f"--vocabulary={vocabulary + 1}"))
    assert done.returncode == 1 and f"it has vocabulary {vocabulary}, the options say {vocabulary + 1}" in done.stderr


def test_gpt_2s_vocabulary_is_the_default_of_tokens(tmp_path):
    file = token_file(tmp_path / "gpt2.bin", [50256, 464, 2068, 7586] * 400)
    said = gpt("--layers=1", "--channels=16", "--heads=1", "--context=8", "--batch=1", "--steps=1", f"--tokens={file}",
               f"--checkpoint={tmp_path}")
    assert number(said, "parameters ", " bytes") == 4 * ((50257 + 8 + 2) * 16 + (12 * 16 + 13) * 16)
    done = finish(command("sample", f"--checkpoint={tmp_path}", "--prompt=50256 464", "--length=20"))
    tokens = [int(word) for word in done.stdout.split()]
    assert tokens[:2] == [50256, 464] and len(tokens) == 22 and all(t < 50257 for t in tokens)
    for prompt in ([], ["--prompt=The"], ["--prompt=50257"], ["--prompt=1 x"]):
        done = finish(command("sample", f"--checkpoint={tmp_path}", *prompt))
        assert (done.returncode, done.stdout) == (1, "") and "numbers from 0 to 50256" in done.stderr


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_token_beyond_the_vocabulary_is_refused_with_its_position(tmp_path, ranks):
    file = token_file(tmp_path / "tokens.bin", [*range(100), 99, 100, 5] * 50)
    done = finish(command(f"--tokens={file}", "--vocabulary=100", "--context=8", ranks=ranks))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"'{file}': token 100 at position 101 is not below --vocabulary=100" in done.stderr
    gpt(f"--tokens={file}", "--vocabulary=101", "--context=8", "--steps=1")


@pytest.mark.parametrize("head, tail, says", [
    ([20240520, 2, 3000], b"", "version 2 of llm.c's format"),
    ([20240520, 1, 3001], b"", "its head says 3001 tokens, and it has 3000"),
    ([20240801, 7, 3000], b"", "tokens of 32 bits"),
    (None, b"x", "odd number of bytes"),
])
def test_a_file_that_has_no_tokens_of_16_bits_is_refused(tmp_path, head, tail, says):
    file = token_file(tmp_path / "tokens.bin", [1, 2, 3] * 1000, head)
    file.write_bytes(file.read_bytes() + tail)
    done = finish(command(f"--tokens={file}"))
    assert (done.returncode, done.stdout) == (2, "")
    assert str(file) in done.stderr and says in done.stderr


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


# ---- slow ranks ------------------------------------------------------------------------------------------------------

SLOW_RANK = ["env", f"LD_PRELOAD={BUILD}/tests/fault/preload/slow_rank.so"]


def test_a_slow_disk_of_rank_0_does_not_end_the_others(tmp_path):
    """A checkpoint takes a second, and a limit on a wait of a minute 0.2 s."""
    options = [*SMALL, "--steps=4", "--batch=8", "--checkpoint-every=1", f"--checkpoint={tmp_path}"]
    slow = [str(a) for a in [DROVER, "run", "-np", 2, "--", *SLOW_RANK, "SLOW_RANK_MS=500", GPT, *options]]
    done = finish(slow)
    assert done.returncode == 0, done.stderr
    assert weights(done.stdout) == weights(gpt(*SMALL, "--steps=4", "--batch=8", ranks=2))
    assert "resumed after step 4" in gpt(*options, "--resume", ranks=2)


def test_a_step_that_takes_long_is_completed_after_sigterm_and_saved(tmp_path):
    """A step takes about a second, and an alarm of 10 s 0.03 s."""
    options = ["--channels=128", "--accumulate=24", "--steps=100", "--log-every=1", f"--checkpoint={tmp_path}"]
    with subprocess.Popen([*SLOW_RANK, *command(*options)], env=clean_env(), text=True, stdout=subprocess.PIPE) as p:
        line = p.stdout.readline()
        p.terminate()
        said = line + p.stdout.read()
    assert p.returncode == 128 + signal.SIGTERM
    assert "stopped on request; saved" in said and (tmp_path / "gpt.ckpt").exists()


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


def test_sample_prints_any_byte(tmp_path):
    (tmp_path / "data").write_bytes(b"abc\0defg\0\xff\n" * 2000)
    gpt(*SMALL, f"--data={tmp_path}/data", f"--checkpoint={tmp_path}", "--quiet")
    done = subprocess.run(command("sample", f"--checkpoint={tmp_path}", "--prompt=abc", "--length=100", "--temperature=0"), env=clean_env(),
                          capture_output=True, check=True, timeout=LIMIT_S)
    assert len(done.stdout) == 3 + 100 + 1 and done.stdout.startswith(b"abc\0")


def test_a_copy_says_where_its_text_is_and_finds_it_there(tmp_path):
    env = {"LD_LIBRARY_PATH": str(BUILD / "lib")}
    with open(GPT, "rb") as f:  # as a user's build, which does not know this folder
        program = f.read().replace(str(GPT.parent).encode(), b"/nowhere".ljust(len(str(GPT.parent)), b"/"))
    (tmp_path / "gpt").write_bytes(program)
    (tmp_path / "gpt").chmod(0o755)
    done = finish([tmp_path / "gpt", "--steps=1"], **env)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"'{tmp_path}/paradise_lost.txt': No such file" in done.stderr
    assert "gunzip" in done.stderr and "--data=FILE" in done.stderr
    (tmp_path / "data").mkdir()
    shutil.copy(SOURCE / "data" / "paradise_lost.txt.gz", tmp_path / "data")
    subprocess.run(["gunzip", "-k", tmp_path / "data" / "paradise_lost.txt.gz"], check=True)
    assert finish([tmp_path / "gpt", "--steps=1"], **env).returncode == 0


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
    ("--global-batch=32 --accumulate=3", "--batch * --accumulate * 1 rank\n"),
    ("--batch=auto --accumulate=2", "try: --global-batch"),
    ("--batch-min=65", "--batch-min"),
    ("--eval", "--checkpoint"),
    ("--context=30000", "too few for --context 30000"),
    ("--data=/none/text", "/none/text"),
    ("--tokens=/none/tokens.bin", "/none/tokens.bin"),
    ("--tokens=a --data=b", "excludes --tokens"),
    ("--vocabulary=100", "needs --tokens"),
    ("--tokens=a --vocabulary=65537", "--vocabulary '65537'"),
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
