"""The compose files as Docker reads them: what the one with CUDA adds to the other. And the packages' script's help."""
import pathlib
import subprocess

import yaml

DOCKER = pathlib.Path(__file__).resolve().parents[2] / "docker"


def load(name):
    return yaml.safe_load((DOCKER / name).read_text())


def test_the_base_file_restarts_what_fails_and_waits_for_the_drain():
    service = load("compose.yaml")["services"]["hearth"]
    assert service["restart"] == "unless-stopped"  # hearthd ends when its engine has failed
    assert int(service["environment"]["HEARTH_DRAIN_SECONDS"]) < int(service["stop_grace_period"].removesuffix("s"))
    assert (DOCKER.parent / service["build"]["dockerfile"]).is_file()


def test_the_cuda_file_adds_a_gpu_and_memory_that_may_be_pinned():
    base, cuda = load("compose.yaml"), load("compose.cuda.yaml")
    assert set(cuda) == {"services"} and set(cuda["services"]) <= set(base["services"])
    service = cuda["services"]["hearth"]
    assert set(service) == {"build", "deploy", "ulimits"}
    assert service["build"] == {"dockerfile": "docker/cuda.Dockerfile"}
    assert (DOCKER.parent / service["build"]["dockerfile"]).is_file()
    assert service["deploy"] == {"resources": {"reservations": {"devices": [
        {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}]}}}
    assert service["ulimits"] == {"memlock": -1}


def test_the_packages_script_says_how_it_is_used():
    for flag in ("--help", "-h"):
        done = subprocess.run([DOCKER / "install-deps.sh", flag], capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == ""
        assert "docker/install-deps.sh [--cuda] [runtime|build|test|arm]" in done.stdout
        assert "set -eu" not in done.stdout and not done.stdout.startswith("#")
    wrong = subprocess.run([DOCKER / "install-deps.sh", "everything"], capture_output=True, text=True)
    assert wrong.returncode == 2 and '"everything" is none of' in wrong.stderr and wrong.stdout == ""
