"""The container's Dockerfile, run step by step in debootstrap roots, then its entrypoint as the container would run it.

Of the one with CUDA, in what it differs.
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from dockerfile_steps import Builder, instructions

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/data/relu/relu-5m-q8_0.gguf"


def reason_not_to_run():
    if os.geteuid() != 0:
        return "not run: building in a chroot needs root"
    missing = [tool for tool in ("ccache", "debootstrap", "unshare", "chroot") if shutil.which(tool) is None]
    if missing:
        return f"not run: {', '.join(missing)} not installed"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        return "not run: this system does not allow mount namespaces"
    return None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_healthy(image, env, process):
    """Runs the image's own health check until it passes."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, "hearthd ended by itself"
        check = subprocess.run(image.chroot_command(image.healthcheck), env=env, capture_output=True)
        if check.returncode == 0:
            return
        time.sleep(0.5)
    pytest.fail("the health check never passed")


@pytest.mark.nightly
@pytest.mark.skipif(reason_not_to_run() is not None, reason=str(reason_not_to_run()))
def test_the_cpu_image_builds_and_serves_without_root():
    # Not pytest's folder, which stays behind: these roots are gigabytes.
    with tempfile.TemporaryDirectory(prefix="hearth-docker-") as work:
        build_and_serve(pathlib.Path(work))


def differing(name, of):
    """The instructions of one Dockerfile that the other lacks."""
    others = list(instructions((ROOT / "docker" / of).read_text()))
    return [step for step in instructions((ROOT / "docker" / name).read_text()) if step not in others]


def test_the_cuda_image_is_the_cpu_image_with_a_toolkit():
    """What is not tested by building it: a toolkit of hundreds of megabytes and six GPUs' kernels take minutes."""
    ours, theirs = differing("cuda.Dockerfile", "cpu.Dockerfile"), differing("cpu.Dockerfile", "cuda.Dockerfile")
    assert [keyword for keyword, _ in ours] == [keyword for keyword, _ in theirs] == ["RUN", "RUN", "ENV"]
    assert ours[0][1] == theirs[0][1].replace("install-deps.sh build", "install-deps.sh --cuda build")
    assert ours[1][1].replace(" -DHEARTH_CUDA=ON -DHEARTH_CUDA_ARCHITECTURES=release", "") == theirs[1][1]
    assert ours[2][1].startswith(theirs[2][1] + " NVIDIA_VISIBLE_DEVICES=all ")


def build_and_serve(work):
    # The host's compiler cache makes the build inside quick; the image's own steps are untouched. (A compiler in another
    # language is another one to the cache.)
    ccache = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True, check=True)
    cache = pathlib.Path(ccache.stdout.strip())
    cache.mkdir(parents=True, exist_ok=True)
    builder = Builder(ROOT, work, run_binds={"/ccache": cache},
                      run_env={"CCACHE_DIR": "/ccache", "CCACHE_BASEDIR": "/src", "CCACHE_NOHASHDIR": "1",
                               **{name: value for name, value in os.environ.items() if name.startswith(("LANG", "LC_"))}})
    image = builder.build((ROOT / "docker/cpu.Dockerfile").read_text())
    assert image.user == "1000"

    models = work / "models"
    models.mkdir()
    shutil.copy(MODEL, models / "model.gguf")
    env = {**image.env, "HEARTH_HOST": "127.0.0.1", "HEARTH_PORT": str(free_port()), "HOME": "/home/hearth"}
    command = image.chroot_command(image.entrypoint + ["--model", "/models/model.gguf"], **{"/models": models})
    process = subprocess.Popen(command, env=env)
    try:
        wait_until_healthy(image, env, process)
        assert os.stat(f"/proc/{process.pid}").st_uid == 1000
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
