"""docker/Dockerfile: the image builds, its configuration is as documented, and it serves as an engine would
start it."""
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile

import pytest
import yaml

from container_images import ROOT, Container, Workshop, reason_not_to_run

MODEL = ROOT / "tests/data/relu/relu-5m-q8_0.gguf"
PROGRAMS = ["usr/local/bin/hearth-profiler", "usr/local/bin/hearthd"]
pytestmark = [pytest.mark.image,
              pytest.mark.skipif(reason_not_to_run() is not None, reason=str(reason_not_to_run()))]


def of_this_machine():
    """What makes builds quick while the Dockerfile's steps are unchanged: (variables of the build stage,
    binds). The compiler cache, for which a compiler in another language, or with warnings as errors, is a
    different compiler; and certificates that pip must trust on this machine."""
    cache = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True,
                           check=True).stdout.strip()
    pathlib.Path(cache).mkdir(parents=True, exist_ok=True)
    env = {name: value for name, value in os.environ.items() if name.startswith(("LANG", "LC_"))
           or name == "HEARTH_WERROR"}
    env |= {"CCACHE_DIR": "/ccache", "CCACHE_BASEDIR": "/src", "CCACHE_NOHASHDIR": "1"}
    binds = {"/ccache": cache}
    if os.environ.get("PIP_CERT"):
        env["PIP_CERT"] = "/certificates.crt"
        binds["/certificates.crt"] = os.environ["PIP_CERT"]
    return env, binds


def toolkit_of_this_machine():
    """Binds for NVIDIA's compiler, which is downloaded if it is not installed."""
    if pathlib.Path("/usr/local/cuda/bin/nvcc").exists():
        return {"/usr/local/cuda": "/usr/local/cuda"}
    downloads = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "hearth"
    return {"/root/.cache/hearth": downloads} if list(downloads.glob("cuda-*/bin/nvcc")) else {}


@pytest.fixture(scope="module")
def workshop():
    # pytest's folder would stay behind, and images take gigabytes.
    with tempfile.TemporaryDirectory(prefix="hearth-images-") as folder:
        yield Workshop(folder)


@pytest.fixture(scope="module")
def image(workshop):
    workshop.make_base("bookworm", of_this_machine()[0])
    return workshop.build("hearth:cpu", binds=of_this_machine()[1], VERSION="1.2.3", REVISION="0123abc",
                          SOURCE="file:///hearth")


@pytest.fixture(scope="module")
def root(image):
    with image.unpacked() as folder:
        yield folder


@pytest.fixture
def models(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copy(MODEL, folder / "model.gguf")
    return folder


def owned(folder, uid, gid, mode):
    folder.mkdir()
    os.chown(folder, uid, gid)
    folder.chmod(mode)
    return folder


def files_of(root):
    return sorted(path.relative_to(root)
                  for path in root.rglob("*") if path.is_symlink() or not path.is_dir())


def test_the_image_configuration_is_readable_for_engines_and_people(image):
    config = image.config
    # exec form: a shell would swallow signals
    assert config["Entrypoint"] == ["hearthd"] and not config.get("Cmd")
    assert config["User"] == "1000:1000"
    assert config["StopSignal"] == "SIGTERM"
    assert config["ExposedPorts"] == {"8080/tcp": {}}
    assert config["Volumes"] == {"/cache": {}}
    assert config["Healthcheck"]["Test"] == ["CMD", "hearthd", "--healthcheck"]
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()
              if key.startswith("org.opencontainers.image.")}
    assert labels.pop("description")
    assert labels == {"title": "Hearth", "licenses": "Apache-2.0", "version": "1.2.3", "revision": "0123abc",
                      "source": "file:///hearth"}


def test_the_environment_has_no_more_than_it_needs(image):
    """Contains no key, no proxy and nothing else from the machine that built it, and no GPU unless one was
    requested."""
    assert sorted(image.config["Env"]) == [
        "HEARTH_HOST=0.0.0.0", "NVIDIA_DRIVER_CAPABILITIES=compute,utility", "NVIDIA_VISIBLE_DEVICES=void",
        "PATH=/usr/local/bin:/usr/bin", "XDG_CACHE_HOME=/cache"]


def test_the_version_label_is_the_projects_if_nobody_gives_one():
    project = re.search(r"project\(hearth VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert f"ARG VERSION={project}\n" in (ROOT / "docker/Dockerfile").read_text()


def test_the_root_has_the_programs_their_libraries_and_no_other_program(root):
    executables = [str(path) for path in files_of(root) if (root / path).lstat().st_mode & stat.S_IXUSR
                   and not (root / path).is_symlink()]
    assert [path for path in executables if not re.match(r"usr/lib\d*/ld-linux", path)] == PROGRAMS
    loader, = (path for path in executables if path not in PROGRAMS)
    listed = set()
    for program in PROGRAMS:
        # The image's own loader runs in the image, so it finds only what the image has.
        needed = subprocess.run(["chroot", root, f"/{loader}", "--list", f"/{program}"], capture_output=True,
                                text=True)
        assert needed.returncode == 0 and "not found" not in needed.stdout, needed.stdout + needed.stderr
        listed |= set(re.findall(r"^\s([^/\s]+) => ", needed.stdout, re.M))
    libraries = {path.name for path in files_of(root) if ".so" in path.name and str(path) != loader}
    # NVIDIA's driver is linked with these parts of the C library.
    assert libraries == listed | {"libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6"}


def test_nothing_in_the_root_runs_as_another_user_or_belongs_to_the_server(root):
    for path in root.rglob("*"):
        status = path.lstat()
        name = str(path.relative_to(root))
        if name == "cache":
            assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1000, 0, 0o775)
        else:
            assert (status.st_uid, status.st_gid) == (0, 0), name
            assert not status.st_mode & (stat.S_ISUID | stat.S_ISGID), name
            assert name == "tmp" or path.is_symlink() or not status.st_mode & 0o022, name


def test_the_root_says_which_packages_and_licenses_it_has(root):
    """Scanners for vulnerabilities read var/lib/dpkg/status.d where there is no package manager."""
    packages = {path.name for path in (root / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libstdc++6", "zlib1g", "nlohmann-json3-dev", "node-markdown-it",
            "fonts-katex"} <= packages
    for package in packages:
        said = (root / "var/lib/dpkg/status.d" / package).read_text()
        assert said.startswith(f"Package: {package}\n") and "\nVersion: " in said
        assert (root / "usr/share/doc" / package / "copyright").stat().st_size > 0
    assert (root / "usr/share/doc/hearth/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert json.loads((root / "usr/share/doc/hearth/sbom.json").read_text())["bomFormat"] == "CycloneDX"


def test_the_image_is_small(image, root):
    """pytest -rP shows the table."""
    parts = {"programs": 0, "libraries": 0, "certificates": 0, "licenses, packages' names and the rest": 0}
    for path in files_of(root):
        kind = ("programs" if str(path) in PROGRAMS else "libraries" if ".so" in path.name
                else "certificates" if path.suffix == ".crt" else "licenses, packages' names and the rest")
        parts[kind] += (root / path).lstat().st_size
    print(*image.layers)
    for part, size in parts.items():
        print(f"{size / 1e6:8.1f} MB  {part}")
    assert sum(parts.values()) < 60e6


@pytest.mark.parametrize("uid, gid", [(1000, 1000), (1234567, 0)], ids=["its-user", "any-user-of-group-0"])
def test_it_serves_without_rights_a_network_or_a_root_to_write_to(image, root, tmp_path, models, uid, gid):
    cache = owned(tmp_path / "cache", 1000, 0, 0o775)  # with the image's owner and mode, which volumes copy
    service = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]["hearth"]
    # ${MODEL:-/models/model.gguf} where MODEL is not set
    env = [name + "=" + re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value)
           for name, value in service["environment"].items()]
    with Container(image, root, tmp_path, env=env, models=models, uid=uid, gid=gid, cache=cache) as container:
        container.wait_until_healthy()
        status = pathlib.Path(f"/proc/{container.pid()}/status").read_text()
        assert re.search(rf"^Uid:\s+{uid}\s+{uid}\s", status, re.M)
        assert set(re.findall(r"^Cap\w+:\s+(\w+)", status, re.M)) == {"0" * 16}
        assert re.search(r"^NoNewPrivs:\s+1$", status, re.M)
        answer = json.loads(container.ask("/v1/completions",
                                          {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}))
        assert answer["usage"]["completion_tokens"] == 8 and answer["choices"][0]["text"]
        # Other services of compose.yaml use this name.
        assert "hearth_up 1" in container.ask("/metrics", None, "--header", "Host: hearth:8080")
        with pytest.raises(subprocess.CalledProcessError):
            container.ask("/metrics", None, "--header", "Host: rebound.example")
        assert container.stop() == 0, container.log()
    assert (cache / "hearth").is_dir()  # measurements would be stored there
    assert (models / "model.gguf").read_bytes() == MODEL.read_bytes()


def test_it_serves_where_even_the_cache_cannot_be_written(image, root, tmp_path, models):
    with Container(image, root, tmp_path, ["--model", "/models/model.gguf"], models=models, uid=4321,
                   gid=4321) as container:
        container.wait_until_healthy()
        assert container.stop() == 0, container.log()


def test_a_missing_model_is_reported_in_one_sentence(image, root, tmp_path, models):
    with Container(image, root, tmp_path, ["--model", "/models/none.gguf"], models=models) as container:
        assert container.process.wait(timeout=60) == 2
    assert "/models/none.gguf" in container.log()


@pytest.mark.nightly
def test_the_same_inputs_give_the_same_layers(image):
    """Builds again on another day, in another place, from another base, without the compiler cache."""
    with tempfile.TemporaryDirectory(prefix="hearth-images-again-") as folder:
        clone = pathlib.Path(folder) / "elsewhere"
        shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(".git", "build"),
                        copy_function=shutil.copy)
        again = Workshop(folder)
        again.make_base("bookworm")
        assert again.build("hearth:cpu", context=clone, REVISION="fedcba9").layers == image.layers


@pytest.mark.nightly
def test_the_image_of_debian_13_builds_and_serves(workshop, tmp_path, models):
    workshop.make_base("trixie", of_this_machine()[0])
    image = workshop.build("hearth:trixie", binds=of_this_machine()[1], DEBIAN="trixie")
    with image.unpacked() as root, \
            Container(image, root, tmp_path, ["--model", "/models/model.gguf"], models=models) as container:
        container.wait_until_healthy()
        assert container.stop() == 0, container.log()


@pytest.mark.nightly
def test_the_image_with_cuda_has_kernels_needs_no_library_more_and_serves_without_a_gpu(
        workshop, root, tmp_path, models):
    image = workshop.build("hearth:cuda", binds=of_this_machine()[1] | toolkit_of_this_machine(),
                           HEARTH_CUDA="ON", HEARTH_CUDA_ARCHITECTURES="89-real")
    with image.unpacked() as cuda_root:
        assert {path for path in files_of(cuda_root)} - {path for path in files_of(root)} == set()
        program = (cuda_root / PROGRAMS[1]).read_bytes()
        assert b"sm_89" in program and b"sm_89" not in (root / PROGRAMS[1]).read_bytes()
        assert len(program) < 60e6
        with Container(image, cuda_root, tmp_path, ["--model", "/models/model.gguf"],
                       models=models) as container:
            container.wait_until_healthy()
            assert "CUDA: none" in container.log()
            assert container.stop() == 0, container.log()
