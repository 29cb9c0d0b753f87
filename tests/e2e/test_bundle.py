"""`make bundle` gives a folder that runs where there is nothing but glibc and a shell: it is tried in such a root."""
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kit_ranks import BUILD, ROOT, clean_env

HOME = "/some where/drover"  # of the bundle in the bare root
LIMIT_S = 120
# Mounts end with the namespace. /proc and /sys are what drover reads of the machine.
ENTER = """set -e
root=$1; shift
mount -t tmpfs tmpfs "$root/dev"; mkdir "$root/dev/shm"
for d in null zero urandom; do touch "$root/dev/$d"; mount --bind "/dev/$d" "$root/dev/$d"; done
mount -t proc proc "$root/proc"; mount -t sysfs sysfs "$root/sys"
exec chroot "$root" /bin/sh -c "$@"
"""
CUDA = next((d for d in (ROOT / "build/cuda", Path("/usr/local/cuda"), Path("/opt/cuda")) if (d / "include/nccl.h").exists()), None)
GLIBC = re.compile(r"/lib(64)?/.*")


def run(*argv, **kw):
    return subprocess.run([str(a) for a in argv], cwd=ROOT, text=True, capture_output=True, timeout=600, check=False, **kw)


@pytest.fixture(scope="module")
def tree():
    if not shutil.which("dpkg-query"):
        pytest.skip("no dpkg, which knows the libraries' licences")
    flags = ROOT / "build/dev/flags"  # with others, everything would be built anew
    strict = ["WERROR=1"] if flags.exists() and "-Werror" in flags.read_text().split() else []
    done = run("make", "-s", "bundle", *strict, env={k: v for k, v in os.environ.items() if k != "MAKEFLAGS"})
    assert done.returncode == 0, done.stderr
    return ROOT / next(line for line in done.stdout.splitlines() if "MiB" in line).split(":")[0]


@pytest.fixture(scope="module")
def bare(tree, tmp_path_factory):
    """A root with glibc's libraries, a shell, and the archive's content."""
    if os.geteuid() != 0:
        pytest.skip("not root: nobody else may chroot")
    if run("unshare", "--mount", "true").returncode != 0:
        pytest.skip("this root may not have mounts of its own")
    r = tmp_path_factory.mktemp("bare")
    for d in ("bin", "lib64", "lib/x86_64-linux-gnu", "proc", "sys", "dev", "tmp", "root", "etc"):
        (r / d).mkdir(parents=True)
    for name in run("dpkg-query", "-L", "libc6:amd64").stdout.split():
        if re.search(r"/lib/x86_64-linux-gnu/[^/]+\.so[.\d]*$", name):
            shutil.copy(name, r / "lib/x86_64-linux-gnu")
    shutil.copy("/lib64/ld-linux-x86-64.so.2", r / "lib64")
    shutil.copy(shutil.which("dash") or shutil.which("busybox"), r / "bin/sh")
    home = r / HOME.strip("/")
    home.parent.mkdir(parents=True)
    assert run("tar", "-xzf", f"{tree}.tar.gz", "-C", home.parent).returncode == 0
    (home.parent / tree.name).rename(home)
    yield r
    shutil.rmtree(r)


def inside(root, script, **env):
    """Runs a script in the root, with the bundle's drover in PATH and nothing else from here."""
    return subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", str(root),
                           f"cd /tmp\n{script}"], text=True, capture_output=True, timeout=LIMIT_S, check=False,
                          stdin=subprocess.DEVNULL, env={"PATH": f"{HOME}/bin:/bin:/usr/sbin:/usr/bin:/sbin", "HOME": "/root", **env})


def programs(tree):
    for p in sorted(tree.rglob("*")):
        if p.is_file() and not p.is_symlink():
            with p.open("rb") as f:
                if f.read(4) == b"\x7fELF":
                    yield p


def of_nvidia(path):
    return "compute-sanitizer" in path.parts


def test_it_is_small_and_whole(tree):
    size = sum(p.stat().st_size for p in tree.rglob("*") if p.is_file() and not p.is_symlink() and not of_nvidia(p))
    assert 20 << 20 < size <= 82 << 20
    for name in ("bin/drover", "libexec/drover/drover-hpo", "libexec/drover/drover-serve", "libexec/drover/drover-bench",
                 "libexec/drover/conform", "libexec/drover/gpt_vectors", "libexec/drover/gpt_peer.py", "examples/gpt/gpt",
                 "examples/gpt/paradise_lost.txt", "share/drover/web/d3.min.js", "share/drover/web/d3.LICENSE.txt",
                 "lib/libdrover.so", "include/drover.h", "share/drover/drover.py", "share/drover/alerts.yml",
                 "share/drover/grafana.json", "share/drover/llms.txt", "share/drover/skill/SKILL.md", "examples/digits/digits",
                 "examples/digits/sweep.yaml", "examples/suggest/search.py", "scripts/gpu-check", "README.md"):
        assert (tree / name).exists(), name


def test_gpu_check_has_all_that_it_runs(tree):
    """Its modules, the programs that it starts, and the sources that it compiles, in a folder that knows nothing of this one."""
    for module in (ROOT / "scripts/gpu_check").glob("*.py"):
        assert (tree / "scripts/gpu_check" / module.name).exists(), module.name
    assert not list(tree.rglob("__pycache__"))
    done = run(tree / "scripts/gpu-check", "--help", env=clean_env())
    assert done.returncode == 0 and "--part" in done.stdout, done.stderr
    places = ("import sys; from pathlib import Path; sys.dont_write_bytecode = True; sys.path.insert(0, 'scripts')\n"
              "from gpu_check.kit import Check; from gpu_check.models import PROGRAM\n"
              "c = Check(Path.cwd(), Path('/tmp'), type('Options', (), {'assume_gpu': True, 'quick': False}))\n"
              "print(c.drover, c.conform, c.vectors, c.peer, PROGRAM, *c.trainer.values(), c.sources / 'tests/cudahost/planted.cc', sep='\\n')")
    done = subprocess.run(["python3", "-c", places], cwd=tree, text=True, capture_output=True, timeout=60, check=False)
    files = done.stdout.splitlines()
    assert len(files) == 8 and all(Path(f).exists() and tree in Path(f).parents for f in files), done.stdout + done.stderr


@pytest.mark.skipif(not CUDA, reason="no headers of CUDA and NCCL")
def test_the_planted_faults_can_be_built_from_its_sources(tree):
    done = run("g++", "-std=c++17", "-fsyntax-only", f"-I{tree / 'src'}", f"-I{tree}", f"-I{CUDA}/include", "-include", "tests/cudahost/cudahost.h",
               tree / "src/tests/cudahost/planted.cc")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not CUDA, reason="no headers of CUDA and NCCL")
def test_the_plug_in_can_be_built_from_its_sources(tree):
    """As scripts/gpu-check does where the bundle has no plug-in."""
    gpu_check = (ROOT / "scripts/gpu_check/machine.py").read_text()
    common = re.findall(r'"((?:common|collectives/(?:comm|bootstrap))/\w+)"', gpu_check[gpu_check.index("common = ["):gpu_check.index("-Wl,-z,defs")])
    src = tree / "src"
    done = run("cc", "-std=gnu17", "-D_GNU_SOURCE", "-DDROVER_BUILD", "-fPIC", "-shared", "-Wl,-z,defs", f"-I{src}", f"-I{CUDA}/include", "-o", "/dev/null",
               *src.glob("collectives/backends/nccl/*.c"), *(src / f"{n}.c" for n in common), "-ldl", "-lpthread")
    assert len(common) > 7 and done.returncode == 0, done.stderr


def test_what_is_not_ours_has_its_licence(tree):
    told = (tree / "LICENSES/README").read_text()
    for p in programs(tree / "lib/bundled"):
        assert f"    {p.relative_to(tree)}\n" in told
    for package in re.findall(r"^(\S+) \S+ \(source", told, re.M):
        assert (tree / "LICENSES" / package).stat().st_size > 200
    if (tree / "libexec/compute-sanitizer").is_dir():
        assert "may not be passed on" in told and "NVIDIA" in (tree / "LICENSES/compute-sanitizer").read_text()
    assert "GNU GENERAL PUBLIC LICENSE" in (tree / "LICENSES/common-licenses/GPL-3").read_text()


def test_no_file_looks_for_libraries_where_it_was_built(tree):
    for p in programs(tree):
        for folders in re.findall(r"(?:RPATH|RUNPATH)\s+(\S+)", run("objdump", "-p", p).stdout):
            assert all(f.startswith("$ORIGIN") for f in folders.split(":")), p


def test_every_library_is_found_in_the_bundle_or_is_glibcs(bare):
    loader = "/lib64/ld-linux-x86-64.so.2"
    files = [f"{HOME}/{p.relative_to(bare / HOME.strip('/'))}" for p in programs(bare / HOME.strip("/"))
             if "_cuda" not in p.name and "/lib/bundled/" not in str(p) and not of_nvidia(p)]  # those are reached from the others
    assert len(files) >= 7 + (BUILD / "lib/drover/backend_nccl.so").exists()
    for f in files:
        done = inside(bare, f"exec {loader} --list '{f}'")
        assert done.returncode == 0, f"{f}: {done.stderr}"
        for file in re.findall(r" => (.*) \(0x", done.stdout):
            assert file.startswith(HOME) or GLIBC.fullmatch(file), f"{f} takes {file}"


def test_two_ranks_run_and_get_nothing_of_the_bundles_own(bare):
    done = inside(bare, "drover run -np 2 sh -c 'echo rank $RANK of $WORLD_SIZE; export -p >env.$RANK'")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")) == ["", "rank 0 of 2", "rank 1 of 2"]
    env = (bare / "tmp/env.1").read_text()
    assert "RANK='1'" in env
    assert not re.search("OPAL_|LD_LIBRARY_PATH|PMIX_INSTALL|PMIX_MCA_mca|HWLOC_PLUGINS_PATH", env), env


def test_a_failure_is_told_as_elsewhere(bare):
    done = inside(bare, "drover run -np 2 sh -c 'echo no luck >&2; exit 7'")
    assert done.returncode == 7 and "exited with status 7" in done.stderr and "no luck" in done.stderr


@pytest.mark.parametrize("method", ["random", "bayes"])
def test_a_sweep_of_four_trials_ends(bare, method):
    (bare / "tmp/s.yaml").write_text(f"""
name: {method}
method: {method}
run_cap: 4
metric: {{name: loss, goal: minimize}}
parameters: {{x: {{min: 0.5, max: 1.0}}}}
command: [/bin/sh, /tmp/trial, "${{args_no_hyphens}}"]
""")
    (bare / "tmp/trial").write_text("""echo "{\\"loss\\": ${1#x=}}"\n""")
    done = inside(bare, f"drover sweep s.yaml --quiet && drover sweep show {method} --json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout[done.stdout.index('{"name"'):])
    assert [t["state"] for t in shown["trials"]] == ["done"] * 4
    assert 0.5 <= shown["best"]["value"] == shown["best"]["params"]["x"]


def test_bench_measures_with_the_bundles_open_mpi(bare):
    done = inside(bare, "drover bench all_reduce -np 2 -b 8 -e 64K -f 8")
    assert done.returncode == 0, done.stderr
    assert "# Backend: mpi, Open MPI" in done.stdout and "# Out of bounds values : 0 OK" in done.stdout
    assert len(re.findall(r"^ +\d+ +\d+ +float", done.stdout, re.M)) == 5


def test_the_conformance_kit_passes_over_it(bare):
    done = inside(bare, f"drover run -np 2 --oversubscribe '{HOME}/libexec/drover/conform' --backend mpi --max 4K --json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failed"] == 0


def test_the_example_trains_on_its_own_data(bare):
    done = inside(bare, f"drover run -np 2 '{HOME}/examples/digits/digits' --epochs=2")
    assert done.returncode == 0, done.stderr
    assert "weights" in done.stdout and "accuracy 0.9" in done.stdout


def test_gpt_trains_on_the_text_of_the_bundle(bare):
    done = inside(bare, f"drover run -np 2 '{HOME}/examples/gpt/gpt' --steps=20 --batch=4")
    assert done.returncode == 0, done.stderr
    assert "val_loss" in done.stdout and "after step 20" in done.stdout


def test_compute_sanitizer_starts_from_the_bundle(tree):
    program = tree / "libexec/compute-sanitizer/compute-sanitizer"
    if not program.exists():
        pytest.skip("no build/sanitizer (scripts/setup --test)")
    assert "Compute Sanitizer" in run(program, "--version").stdout


def test_a_program_is_built_against_it_wherever_it_lies(tree, tmp_path):
    (tmp_path / "p.c").write_text('#include <drover.h>\n#include <stdio.h>\nint main(void)\n{\n    struct drover *d;\n'
                                  '    printf("%d\\n", drover_init(&d));\n    return 0;\n}\n')
    moved = tmp_path / "moved"
    shutil.copytree(tree, moved, symlinks=True)
    flags = run("pkg-config", "--cflags", "--libs", "drover", env={**os.environ, "PKG_CONFIG_PATH": f"{moved}/lib/pkgconfig"})
    assert flags.returncode == 0, flags.stderr
    assert str(moved) in flags.stdout
    built = run("cc", "-o", tmp_path / "p", tmp_path / "p.c", *flags.stdout.split(), f"-Wl,-rpath,{moved}/lib")
    assert built.returncode == 0, built.stderr
    assert run(tmp_path / "p", env=clean_env()).stdout == "0\n"
    loaded = run("ldd", tmp_path / "p").stdout
    assert f"{moved}/lib/bundled/libpmix" in str(Path(re.search(r"libpmix\S* => (\S+)", loaded)[1]).resolve())


def test_without_cuda_the_places_are_listed_where_it_was_looked_for(bare):
    if not (bare / HOME.strip("/") / "examples/digits/mlp_cuda.so").exists():
        pytest.skip("built without nvcc")
    done = inside(bare, f"'{HOME}/examples/digits/digits' --device=cuda", VIRTUAL_ENV="/env")
    assert done.returncode == 1
    assert re.search(r"no libcublas\.so\.\d+ was found on the loader's path, /env/lib/python3\*/", done.stderr), done.stderr
    done = inside(bare, "drover bench all_reduce -np 1 --backend nccl -b 8 -e 8", CONDA_PREFIX="/conda")
    assert done.returncode == 1
    assert re.search(r"no lib(nccl|cudart)\.so\.\d+ was found on the loader's path, /conda/lib/python3", done.stderr), done.stderr


@pytest.fixture(scope="module")
def venv(tree, tmp_path_factory):
    """A virtual environment with the wheel of the bundle, and the wheel."""
    d = tmp_path_factory.mktemp("wheel")
    done = run(ROOT / "scripts/wheel", tree, re.search(r"drover-([\d.]+)-", tree.name)[1], d)
    assert done.returncode == 0, done.stderr
    if run("/usr/bin/python3", "-m", "venv", d / "venv").returncode != 0:
        pytest.skip("python3-venv is not installed")
    (wheel,) = d.glob("*.whl")
    done = run(d / "venv/bin/pip", "install", "--no-index", "--disable-pip-version-check", "-q", wheel)
    assert done.returncode == 0, done.stderr
    return d / "venv", wheel


def wanted(path):
    """The minor versions of glibc 2 without which the loader refuses a program or library."""
    return [int(n) for n in re.findall(r"Name: GLIBC_2\.(\d+)(?:\.\d+)?  Flags: none", run("readelf", "-VW", path).stdout)]


def test_the_wheels_tag_names_the_glibc_that_its_programs_need(venv, tree):
    home, wheel = venv
    (package,) = home.glob("lib/python3*/site-packages/drover_bundle")
    minor = int(re.search(r"py3-none-manylinux_2_(\d+)_x86_64\.whl$", wheel.name)[1])
    assert minor == max([34, *(n for p in programs(package) for n in wanted(p))])
    assert not list(package.rglob("libgcc_s.so*"))  # the machine's own
    if max(n for p in programs(tree / "lib/bundled") if p.name != "libgcc_s.so.1" for n in wanted(p)) <= 36:  # as on Debian 12
        assert minor == 34


def test_the_wheel_runs_where_the_younger_symbols_are_missing(venv, tmp_path):
    """In a copy the weak version has a number, and its symbols have names, that this machine's glibc does not have."""
    (package,) = venv[0].glob("lib/python3*/site-packages/drover_bundle")
    shutil.copytree(package, tmp_path / "copy")
    changed = []
    for path in programs(tmp_path / "copy/lib/bundled"):
        elf = wheel_script().Elf(path.read_bytes())
        weak = [entry for entry, _, version, _ in elf.wants if version == "GLIBC_2.36"]
        if not weak:
            continue
        elf.bytes = elf.bytes.replace(b"\0GLIBC_2.36\0", b"\0GLIBC_2.96\0").replace(b"\0arc4random", b"\0arc4absent")
        for entry in weak:
            elf.bytes[entry:entry + 4] = elf_hash(b"GLIBC_2.96").to_bytes(4, "little")
        path.write_bytes(elf.bytes)
        changed.append(path.name)
    if not changed:
        pytest.skip("this machine's libraries want nothing younger")
    drover = tmp_path / "copy/bin/drover"
    (tmp_path / "s.yaml").write_text("command: [/bin/echo, '{\"loss\": 3}']\nmethod: bayes\nrun_cap: 3\nmetric: {name: loss}\nparameters: {x: {min: 0.0, max: 1.0}}\n")
    done = subprocess.run([drover, "sweep", "s.yaml"], cwd=tmp_path, env=clean_env(), text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and "loss 3" in done.stdout, done.stderr
    done = run(drover, "bench", "all_reduce", "-np", "2", "--backend", "mpi", "-b", "8", "-e", "8", env=clean_env())
    assert done.returncode == 0 and "# Out of bounds values : 0 OK" in done.stdout, done.stderr


def wheel_script():
    loader = importlib.machinery.SourceFileLoader("wheel", str(ROOT / "scripts/wheel"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("wheel", loader))
    loader.exec_module(module)
    return module


def elf_hash(name):
    h = 0
    for c in name:
        h = (h << 4) + c
        h = (h ^ (h & 0xf0000000) >> 24) & ~0xf0000000
    return h


def test_the_wheel_runs_in_a_virtual_environment_and_leaves_nothing(venv, tmp_path):
    home, wheel = venv
    env = clean_env(PATH=f"{home}/bin:{os.environ['PATH']}")
    installed = {p for p in home.rglob("*") if "drover" in p.name}
    assert home / "bin/drover" in installed and list(home.rglob("drover_bundle/share/drover/skill/SKILL.md"))
    done = run("drover", "run", "-np", "2", "python3", "-c", "import drover; print(drover.rank(), drover.world_size())", env=env)
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == ["0 2", "1 2"], done.stderr
    (tmp_path / "t.py").write_text("import wandb\nwandb.init()\nwandb.log({'loss': 3})\n")
    (tmp_path / "s.yaml").write_text("program: t.py\nmethod: grid\nmetric: {name: loss}\nparameters: {x: {value: 1}}\n")
    done = subprocess.run(["drover", "sweep", "s.yaml"], cwd=tmp_path, env=env, text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and "best: trial 0, loss 3" in done.stdout, done.stderr
    done = run("drover", "bench", "all_reduce", "--np", "2", "-b", "8", "-e", "64", "-f", "2", env=env)
    assert done.returncode == 0 and "# Out of bounds values : 0 OK" in done.stdout, done.stderr
    done = run(home / "bin/pip", "uninstall", "-y", "-q", "drover")
    assert done.returncode == 0, done.stderr
    assert not [p for p in home.rglob("*") if "drover" in p.name]
