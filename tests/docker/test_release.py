"""docker/release.sh and .github/workflows/release.yml: what they accept, the checksums and provenance they
write, and the tarball, which is unpacked and run in fresh systems of Debian and Ubuntu.

The tests in systems are nightly: building the tarball takes ten minutes and more. HEARTH_TARBALL=FILE tests
a tarball that exists; HEARTH_RELEASE_WORK=FOLDER keeps the systems that it is built in.
"""
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.request

import pytest
import yaml

from debian_system import System, reason_not_to_run
from hearthd import MODEL as DEFAULT_MODEL
from hearthd import PATIENCE, ROOT, SMALL_MODEL, wait_until
from hub import Hub, Server
from named_hub import certificate

MODEL = DEFAULT_MODEL if DEFAULT_MODEL.is_file() else SMALL_MODEL
RELEASE = ROOT / "docker/release.sh"
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
VERSION = re.search(r"^project\(hearth VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


def release(*arguments, **options):
    return subprocess.run([RELEASE, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, **options)


# ---- The script, without building ----


@pytest.mark.parametrize("arguments, said", [
    (["debs"], '"debs" is neither an option nor one of deb, tarball, images, sums'),
    (["trixie"], "trixie must follow deb"),
    (["--gpus"], "--gpus needs a value"),
    (["--variants", "cpu,rocm", "deb"], '"rocm" is neither cpu nor cuda'),
    (["--key", "/nonexistent.pem", "sums"], "/nonexistent.pem cannot be read"),
])
def test_wrong_arguments_are_refused_in_one_line(arguments, said):
    done = release(*arguments)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done


def test_help_names_every_part_and_option():
    told = release("--help").stdout
    for word in ("deb", "tarball", "images", "sums", "--variants", "--gpus", "--key", "--output", "--work"):
        assert re.search(rf"^ +{word}\b", told, re.MULTILINE), word


def only_folder(output):
    folders = [path for path in output.iterdir() if path.is_dir()]
    assert len(folders) == 1
    return folders[0]


def test_checksums_provenance_and_signature(tmp_path):
    places = ["--output", tmp_path / "dist", "--work", tmp_path / "work"]
    empty = release(*places, "sums")
    assert empty.returncode == 2 and "has no files" in empty.stderr
    folder = only_folder(tmp_path / "dist")
    assert folder.name.startswith(VERSION)
    contents = {"hearth-1-linux-x86_64.tar.gz": b"a tarball", "hearth_1-1.deb12_amd64.deb": b"a package"}
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", tmp_path / "key"], check=True)

    for _ in range(2):  # a second time, its own files are not among the checksums
        done = release(*places, "--key", tmp_path / "key", "sums",
                       env={**os.environ, "HEARTH_SOURCE": "https://example.org/hearth"})
        assert done.returncode == 0, done
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True,
                   capture_output=True)
    verify = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "SHA256SUMS.pub",
              "-sigfile", "SHA256SUMS.sig", "-in", "SHA256SUMS"]
    assert subprocess.run(verify, cwd=folder, capture_output=True).returncode == 0
    statement = json.loads((folder / "provenance.intoto.json").read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert ({subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
            == {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()})
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.strip()
    definition = statement["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"] == [
        {"uri": "git+https://example.org/hearth", "digest": {"gitCommit": commit}}]

    with open(folder / "SHA256SUMS", "a") as sums:
        sums.write("\n")
    assert subprocess.run(verify, cwd=folder, capture_output=True).returncode != 0


def test_two_releases_do_not_work_in_one_folder(tmp_path):
    with open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = release("--output", tmp_path / "dist", "--work", tmp_path, "sums")
    assert done.returncode == 2 and "another docker/release.sh works in" in done.stderr, done


# ---- The workflow ----


def steps():
    for job in WORKFLOW["jobs"].values():
        yield from job["steps"]


def test_the_workflow_has_the_shape_that_github_expects():
    assert set(WORKFLOW) == {"name", True, "permissions", "env", "jobs"}  # YAML 1.1 reads "on" as true
    assert WORKFLOW[True]["push"]["tags"] and "workflow_dispatch" in WORKFLOW[True]
    for name, job in WORKFLOW["jobs"].items():
        assert job["runs-on"].startswith("ubuntu-") and job["steps"], name
        assert set(job) <= {"strategy", "runs-on", "steps", "needs", "if", "permissions", "env"}, name
        assert job.get("needs", name) in WORKFLOW["jobs"]
    for step in steps():
        assert ("uses" in step) != ("run" in step), step
        assert set(step) <= {"name", "id", "uses", "with", "run", "env", "if"}, step
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]), step
    # Only the job that uploads may write.
    writers = [name for name, job in WORKFLOW["jobs"].items() if "write" in str(job.get("permissions"))]
    assert writers == ["publish"] and WORKFLOW["permissions"] == {"contents": "read"}
    assert WORKFLOW["jobs"]["publish"]["if"] == "github.ref_type == 'tag'"


def test_the_workflow_runs_scripts_that_exist_with_parts_that_they_accept():
    scripts = [name for step in steps() for name in re.findall(r"\b[\w/]+\.sh\b", step.get("run", ""))]
    assert "docker/release.sh" in scripts
    for name in scripts:
        assert os.access(ROOT / name, os.X_OK), name
    matrix = WORKFLOW["jobs"]["build"]["strategy"]["matrix"]
    for variant in matrix["variant"]:
        for part in matrix["part"]:
            # An unknown option after them is the only thing to refuse.
            done = release("--variants", variant, *part.split(), "--end")
            assert '"--end" is neither' in done.stderr, done
    for step in steps():
        if "run" in step:  # expressions of GitHub become a word
            script = re.sub(r"\$\{\{.*?\}\}", "word", step["run"])
            assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


# ---- The tarball ----

in_systems = [pytest.mark.nightly,
              pytest.mark.skipif(reason_not_to_run() is not None, reason=str(reason_not_to_run()))]
SYSTEMS = {"bullseye": "Debian 11", "bookworm": "Debian 12", "trixie": "Debian 13",
           "jammy": "Ubuntu 22.04", "noble": "Ubuntu 24.04"}
UBUNTU_KEYS = pathlib.Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")


@pytest.fixture(scope="module")
def tarball():
    if file := os.environ.get("HEARTH_TARBALL"):
        yield pathlib.Path(file)
        return
    with tempfile.TemporaryDirectory(prefix="hearth-release-") as folder:
        work = os.environ.get("HEARTH_RELEASE_WORK", folder + "/work")
        done = release("--variants", "cpu", "--output", folder + "/dist", "--work", work, "tarball")
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        yield next(pathlib.Path(folder, "dist").glob("*/hearth-*.tar.gz"))


def fresh(suite, root):
    """A new system in the folder `root`."""
    kept = os.environ.get("HEARTH_RELEASE_WORK")
    if kept is None:
        return System.made(suite, root)
    base = pathlib.Path(kept) / f"{suite}.fresh"
    if not base.exists():
        System.made(suite, base)
    return System(base).copy(root)


def needs(program):
    """(shared libraries, versions of the C library) that a program needs."""
    told = subprocess.run(["objdump", "-p", "-T", program], capture_output=True, text=True, check=True).stdout
    return (set(re.findall(r"^ +NEEDED +(\S+)", told, re.MULTILINE)),
            {tuple(map(int, number.split("."))) for number in re.findall(r"\bGLIBC_([\d.]+)", told)})


class TestTarball:
    pytestmark = in_systems

    def test_one_folder_with_programs_manuals_and_licenses(self, tarball, tmp_path):
        subprocess.run(["tar", "-xf", tarball, "-C", tmp_path], check=True)
        folder = only_folder(tmp_path)
        assert tarball.name == folder.name + ".tar.gz"
        found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        assert {"bin/hearthd", "bin/hearth-profiler", "share/man/man1/hearthd.1",
                "share/man/man5/hearth.toml.5", "share/bash-completion/completions/hearthd",
                "share/doc/hearth/LICENSE", "share/doc/hearth/README.md",
                "share/doc/hearth/docs/quickstart.md", "share/doc/hearth/examples/hearth.toml"} <= found
        assert {path.split("/")[0] for path in found} == {"bin", "share"}
        # Every library of the bill of materials has its license here.
        bill = json.loads((folder / "share/doc/hearth/sbom.json").read_text())
        assert all(component["properties"][0]["value"] != "shared" for component in bill["components"])
        licenses = {path.name: path.read_text(errors="replace")
                    for path in (folder / "share/doc/hearth/licenses").iterdir()}
        names = " ".join(licenses).lower()
        for component in bill["components"]:
            words = {"openssl": "libssl", "zlib": "zlib1g", "nlohmann_json": "nlohmann-json3",
                     "cudart": "cuda"}
            name = component["name"].lower()
            assert words.get(name, name.replace("_", "-").replace("-js", ".js")) in names, component
        for program in ("hearthd", "hearth-profiler"):
            libraries, versions = needs(folder / "bin" / program)
            assert all(re.match(r"(libc|libm|libpthread|libdl|librt|ld-linux)[-.]", name)
                       for name in libraries), libraries
            assert versions and max(versions) <= (2, 31), versions
        sizes = [f"{path.name} {path.stat().st_size / 1e6:.1f} MB"
                 for path in (tarball, *sorted((folder / "bin").iterdir()))]
        print("; ".join(sizes))

    @pytest.mark.parametrize("suite", SYSTEMS)
    def test_from_the_tarball_to_an_answer_in_a_fresh_system(self, tarball, suite):
        if suite in ("jammy", "noble") and not UBUNTU_KEYS.exists():
            pytest.skip(f"not run: {UBUNTU_KEYS} is missing, with which debootstrap verifies Ubuntu")
        if not pathlib.Path("/usr/share/debootstrap/scripts", suite).exists():
            pytest.skip(f"not run: this debootstrap does not know {suite}")
        with tempfile.TemporaryDirectory(prefix=f"hearth-{suite}-") as folder:
            self.answers(fresh(suite, pathlib.Path(folder) / "root"), tarball, SYSTEMS[suite])

    @staticmethod
    def answers(system, tarball, name):
        """As a user: unpacks, serves a model, asks; then pulls through TLS, with the certificates where
        Fedora has them."""
        (system.root / "srv/models").mkdir(parents=True)
        shutil.copy(MODEL, system.root / "srv/models")
        shutil.copy(tarball, system.root / "srv")
        begin = time.monotonic()
        system.run(f"tar -xf /srv/{tarball.name} -C /srv && mv /srv/hearth-*/ '/srv/a folder'")
        unpacked_s = time.monotonic() - begin
        system.run("'/srv/a folder/bin/hearthd' --version && '/srv/a folder/bin/hearth-profiler' --version")
        with served(system, "'/srv/a folder/bin/hearthd'", f"--model /srv/models/{MODEL.name}") as address:
            body = json.dumps({"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0})
            with urllib.request.urlopen(f"{address}/v1/completions", body.encode(), PATIENCE) as answer:
                assert json.load(answer)["usage"]["completion_tokens"] == 8
        answered_s = time.monotonic() - begin
        print(f"{name}: unpacked in {unpacked_s:.1f} s, first answer after {answered_s:.1f} s")

        crt, key = certificate("hub.test", system.root / "srv")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(crt, key)
        hub = Hub({SMALL_MODEL.name: SMALL_MODEL.read_bytes()}, redirects=False)
        port = Server(hub, "hub", 0, tls).server_address[1]
        system.run("echo '127.0.0.1 hub.test' >>/etc/hosts")
        pull = (f"'/srv/a folder/bin/hearthd' pull --models /srv/pulled --endpoint https://hub.test:{port} "
                f"hf:lab/model")
        assert system.run(pull, check=False).returncode != 0  # nobody trusts the hub
        fedora = system.root / "etc/pki/ca-trust/extracted/pem"
        fedora.mkdir(parents=True)
        shutil.copy(crt, fedora / "tls-ca-bundle.pem")
        system.run(f"rm -f /etc/ssl/certs/ca-certificates.crt; {pull}")
        assert any(path.read_bytes() == SMALL_MODEL.read_bytes()
                   for path in (system.root / "srv/pulled").rglob("*.gguf"))


@contextlib.contextmanager
def served(system, program, options):
    """Serves from within the system, which shares this machine's loopback device. Gives the address."""
    log = system.root / "srv/log"
    with open(log, "w") as file:
        process = subprocess.Popen(system.command(f"exec {program} --port 0 {options}"),
                                   stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        def address():
            assert process.poll() is None, log.read_text()
            told = re.search(r"info open (http://\S+)", log.read_text())
            return told and told[1]

        wait_until(address, "the first address in the log")
        yield address()
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)
