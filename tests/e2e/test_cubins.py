"""What nvcc made of each kernel, for each GPU: it is there, it needs no local memory, and its registers are enough for its
blocks. Wrong results are the business of tests/cudahost."""
import os
import re
import shutil
import subprocess

import pytest
from kit_ranks import BUILD, ROOT

ARCHITECTURES = {75, 80, 90, 100, 110, 120}  # -arch=all-major of CUDA 13; an older toolkit has older ones
REGISTERS_OF_1024 = 64  # of a thread, if the block has 1024 threads

LIBRARIES = {p.stem: p for p in [*BUILD.glob("examples/*/*_cuda.so"), BUILD / "lib/drover/nccl_kernels.so"] if p.exists()}


def sources(library):
    """The text of the CUDA files that the library is built from."""
    folder = LIBRARIES[library].parent.name
    files = (ROOT / "examples" / folder if folder != "drover" else ROOT / "collectives/backends/nccl").glob("*.cu*")
    text = "\n".join(f.read_text() for f in sorted(files))
    for name, meaning in re.findall(r"^#define (\w+) (.*__global__.*)$", text, re.M):
        text = re.sub(rf"\b{name}\b", meaning, text.replace(f"#define {name} {meaning}\n", ""))
    return text


def kernels(library):
    """{kernel of the source: whether it says how many threads its blocks have}"""
    found = re.findall(r"__global__\s([^;{]*?)\b(?!__launch_bounds__)(\w+)\(", sources(library))
    return {name: "__launch_bounds__" in head for head, name in found}


@pytest.fixture(scope="module", name="cuobjdump")
def find_cuobjdump():
    """Runs the toolkit's program, or that of NVIDIA's wheels -> its output."""
    wheels = [str(p) for p in ROOT.glob("build/cuobjdump/lib/python3*/site-packages/nvidia/cu13/bin")]
    homes = [f"{os.environ['CUDA_HOME']}/bin"] if "CUDA_HOME" in os.environ else []
    path = os.pathsep.join([*homes, "/usr/local/cuda/bin", "/opt/cuda/bin", os.environ["PATH"], *wheels])
    program = shutil.which("cuobjdump", path=path)
    if not program:
        pytest.skip("no cuobjdump: neither a toolkit's nor, by scripts/setup --test, NVIDIA's wheel")

    def run(*argv):
        return subprocess.run([program, *map(str, argv)], env={**os.environ, "PATH": path}, check=True, text=True,
                              capture_output=True, timeout=200).stdout
    return run


def usage(text):
    """The output of -res-usage -> {architecture: {mangled name: {"REG": n, "STACK": n, …}}}"""
    found, arch = {}, None
    for line in text.split("\n"):
        if m := re.match(r"arch = sm_(\d+)", line):
            arch = found.setdefault(int(m.group(1)), {})
        elif m := re.match(r" Function (\w+):", line):
            of = arch.setdefault(m.group(1), {})
        elif line.startswith("  REG:"):
            of.update((key, int(value)) for key, value in re.findall(r"(\w+):(\d+)", line))
    return {number: functions for number, functions in found.items() if functions}


def instances(name, functions):
    """The mangled names of a kernel: one, or those of a template."""
    return [f for f in functions if f"{len(name)}{name}" in f]


needs_libraries = pytest.mark.skipif(not LIBRARIES, reason="built without nvcc")


@needs_libraries
@pytest.mark.parametrize("library", LIBRARIES or ["none"])
def test_each_kernel_is_there_for_each_gpu_and_needs_no_local_memory(library, cuobjdump):
    built = usage(cuobjdump("-res-usage", LIBRARIES[library]))
    assert ARCHITECTURES <= set(built) or min(built) < min(ARCHITECTURES), built.keys()
    named = kernels(library)
    assert len(named) == len(re.findall(r"__global__", sources(library))), named
    for arch, functions in built.items():
        for name, has_bounds in named.items():
            mangled = instances(name, functions)
            assert mangled, f"{name} is missing for sm_{arch}"
            for f in mangled:
                use = functions[f]
                assert use["STACK"] == 0 and use["LOCAL"] == 0, f"{f} for sm_{arch}: {use}"
                # ptxas keeps to bounds; it would need local memory to do so
                assert has_bounds or use["REG"] <= REGISTERS_OF_1024, f"{f} for sm_{arch}: {use}"


@needs_libraries
@pytest.mark.parametrize("library", LIBRARIES or ["none"])
def test_no_kernel_spills_its_registers(library, cuobjdump):
    for arch in (80, 90, 120):
        parts = re.split(r"^\s*Function : (\w+)$", cuobjdump("-sass", "-arch", f"sm_{arch}", LIBRARIES[library]), flags=re.M)
        code = dict(zip(parts[1::2], parts[2::2]))
        assert len(code) >= len(kernels(library))
        assert not [f for f, text in code.items() if re.search(r"\b(LDL|STL)\b", text)], f"sm_{arch}"
