"""What users install: the Debian package, the source archive, the image's recipe. test_bundle.py has the wheel."""
import os
import re
import shutil
import subprocess
import tarfile

import pytest
from kit_ranks import BUILD, ROOT, clean_env

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def run(*argv, **kw):
    return subprocess.run([str(a) for a in argv], cwd=ROOT, text=True, capture_output=True, timeout=300, check=False, **kw)


def make(target):
    flags = ROOT / "build/dev/flags"  # with others, everything would be built anew
    strict = ["WERROR=1"] if flags.exists() and "-Werror" in flags.read_text().split() else []
    done = run("make", "-s", target, *strict, env={k: v for k, v in os.environ.items() if k != "MAKEFLAGS"})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def package():
    if not shutil.which("dpkg-shlibdeps"):
        pytest.skip("dpkg-dev is not installed")
    if BUILD != (ROOT / "build/dev").resolve():
        pytest.skip("make deb packs build/dev")
    return make("deb").splitlines()[-1].split(":")[0]


def test_the_package_depends_on_what_its_programs_load(package):
    fields = run("dpkg-deb", "-f", package).stdout
    assert re.search(r"^Version: \d+\.\d+\.\d+$", fields, re.M) and "Package: drover\n" in fields
    depends = re.search(r"^Depends: (.*)$", fields, re.M)[1]
    for library in ("libc6", "libpmix2", "libhwloc15", "libzmq5", "libsqlite3-0", "libpcre2-8-0", "libgsl"):
        assert library in depends, depends
    assert "openmpi" not in depends and "cuda" not in depends.lower()
    if (BUILD / "lib/drover/backend_mpi.so").exists():
        assert "libopenmpi" in re.search(r"^Recommends: (.*)$", fields, re.M)[1]
    if (BUILD / "libexec/drover/drover-serve").exists():
        assert "libmicrohttpd" in fields and "libgnutls" not in fields


def test_the_packages_files_are_roots_and_work_from_where_they_lie(package, tmp_path):
    assert run("dpkg-deb", "-x", package, tmp_path).returncode == 0
    rows = [line.split() for line in run("dpkg-deb", "-c", package).stdout.splitlines()]
    assert {row[1] for row in rows} == {"root/root"}
    assert all(row[0][0] == "l" or row[0][5] != "w" and row[0][8] != "w" for row in rows)
    names = {row[5].removeprefix(".") for row in rows}
    assert {"/usr/bin/drover", "/usr/libexec/drover/drover-hpo", "/usr/share/doc/drover/copyright", "/usr/share/man/man1/drover-run.1.gz",
            "/usr/share/bash-completion/completions/drover", "/usr/share/zsh/vendor-completions/_drover",
            "/usr/share/fish/vendor_completions.d/drover.fish", "/usr/share/drover/llms.txt", "/usr/share/drover/skill/SKILL.md"} <= names
    assert "GPL-3" in (tmp_path / "usr/share/doc/drover/copyright").read_text()
    done = run(tmp_path / "usr/bin/drover", "run", "-np", "2", "sh", "-c", "echo $RANK", env=clean_env())
    assert sorted(done.stdout.split()) == ["0", "1"], done.stderr


def test_the_source_archive_is_the_same_each_time_and_whole():
    make("dist")
    archive = next((ROOT / "build/dist").glob("drover-*.tar.gz"))
    before = archive.read_bytes()
    os.utime(ROOT / "README.md")
    make("dist")
    assert archive.read_bytes() == before
    with tarfile.open(archive) as tar:
        members = {m.name.split("/", 1)[1]: m for m in tar}
    for name in ("Makefile", "README.md", "LICENSE", "scripts/manual", "launcher/main.c", "docs/bundle.md", "tests/run"):
        assert name in members, name
    assert members["tests/run"].mode == 0o755 and members["README.md"].uid == 0
    assert not [name for name in members if name.startswith(("build/", ".git/")) or "__pycache__" in name]
    if shutil.which("git") and run("git", "rev-parse", "HEAD").returncode == 0:
        assert set(run("git", "ls-files").stdout.split("\n")) - {""} <= set(members)


def test_the_images_recipe_names_what_is_there():
    steps = re.findall(r"^([A-Z]+) (.*)$", DOCKERFILE.replace("\\\n", ""), re.M)
    words = [name for name, _ in steps]
    assert words[:2] == ["ARG", "FROM"] and words.count("FROM") == 2 and words[-2:] == ["ENTRYPOINT", "CMD"]
    stages = re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.M)
    for name, rest in steps:
        if name == "RUN":
            assert run("sh", "-n", "-c", rest).returncode == 0, rest
            for script in re.findall(r"scripts/\w+", rest):
                assert os.access(ROOT / script, os.X_OK), script
            for target in re.findall(r"make .*?(\w+)$", rest):
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M), target
        if name == "COPY" and "--from=" in rest:
            assert re.search(r"--from=(\w+)", rest)[1] in stages
    assert "build/deb/" in DOCKERFILE
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert "/build" in ignored and "/.git" in ignored
