"""Debian packages, built, installed, run, upgraded and removed in fresh systems of Debian 12 and 13.

Does what users do: apt install ./hearth.deb, name a model, send a request. Runs under systemd if
systemd-nspawn can boot a system here, and without it, as in a container. Takes some minutes per release, and
about 6 GB in the temporary folder. For development, HEARTH_DEBIAN_WORK=FOLDER keeps the systems there, and
the next run begins with those that have the build packages.
"""
import contextlib
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

import named_hub
from debian_system import BootedSystem, System, reason_not_to_run
from hearthd import ROOT, SMALL_MODEL, wait_until
from hearthd import MODEL as DEFAULT_MODEL

# The model that a first start downloads if it is at hand, otherwise a small one.
MODEL = DEFAULT_MODEL if DEFAULT_MODEL.is_file() else SMALL_MODEL
QUESTION = {"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
CONFIG = "/etc/hearth/hearth.toml"
MODEL_LINE = f"echo 'model = \"/srv/models/{MODEL.name}\"' >> {CONFIG}"

pytestmark = [pytest.mark.nightly,
              pytest.mark.skipif(reason_not_to_run() is not None, reason=str(reason_not_to_run()))]


def compiler_cache():
    """This machine's compiler cache, so that what it has compiled is not compiled again."""
    found = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True,
                           check=True).stdout.strip()
    pathlib.Path(found).mkdir(parents=True, exist_ok=True)
    return {"/ccache": found}


def cuda_toolkit():
    """This machine's cache of downloads, if there is one, where install-deps.sh and the build look; otherwise
    it is downloaded."""
    cached = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "hearth"
    for folder in (pathlib.Path("/usr/local/cuda"), *cached.glob("cuda-*")):
        if (folder / "bin/nvcc").exists():
            return {"/usr/local/cuda": folder.resolve()}
    return {}


NUMBER = {"bookworm": "12", "trixie": "13"}
BUILD = {"CCACHE_DIR": "/ccache", "CCACHE_BASEDIR": "/src", "CCACHE_NOHASHDIR": "1", "HEARTH_WERROR": "ON"}


class Release:
    """A release of Debian: a fresh system, one in which Hearth is built, and the package."""

    def __init__(self, suite, work):
        self.suite, self.work = suite, work
        self.base, self.builder = System(work / "base"), System(work / "builder")
        if not self.base.root.exists():
            System.made(suite, self.base.root,
                        include=("systemd", "systemd-sysv", "dbus")).run("apt-get update -qq")
        if not self.builder.root.exists():
            self.base.copy(self.builder.root)
        shutil.rmtree(self.builder.root / "src", ignore_errors=True)
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, self.builder.root / "src"], check=True)
        self.builder.run(
            "cd /src && docker/install-deps.sh build && git config --system safe.directory '*' && "
            "apt-get install -y -qq --no-install-recommends lintian man-db mandoc bash-completion")
        self.package = self.build("package", "-DHEARTH_CUDA=OFF")

    @functools.cached_property
    def cuda_package(self):
        return self.build("package-cuda", "-DHEARTH_CUDA=ON -DHEARTH_CUDA_ARCHITECTURES=89-real")

    def build(self, folder, options):
        self.builder.run(f"cd /src && docker/install-deps.sh {'--cuda ' if 'cuda' in folder else ''}build && "
                         f"cmake --preset package -B build/{folder} {options} && "
                         f"cmake --build build/{folder} --target package",
                         binds={**compiler_cache(), **cuda_toolkit()}, environment=BUILD)
        packages = list((self.builder.root / "src/build" / folder).glob("*.deb"))
        assert len(packages) == 1, packages
        return packages[0]

    def fresh(self, name):
        """A system as users have it, with the package at /root/hearth.deb."""
        shutil.rmtree(self.work / name, ignore_errors=True)
        system = self.base.copy(self.work / name)
        shutil.copy(self.package, system.root / "root/hearth.deb")
        return system

    def repack(self, system, name, changes):
        """The same package with changed fields, at /root/NAME.deb. changes: a sed script."""
        system.run(f"cd /root && dpkg-deb -R hearth.deb {name} && sed -i '{changes}' {name}/DEBIAN/control "
                   f"&& dpkg-deb -Zgzip -z1 -b {name} {name}.deb && rm -rf {name}")


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def release(request):
    if kept := os.environ.get("HEARTH_DEBIAN_WORK"):
        work = pathlib.Path(kept) / request.param
        work.mkdir(parents=True, exist_ok=True)
        yield Release(request.param, work)
        return
    # pytest's folder would stay behind, and these systems take gigabytes.
    with tempfile.TemporaryDirectory(prefix="hearth-debian-") as work:
        yield Release(request.param, pathlib.Path(work))


@pytest.mark.parametrize("name", ["hearth", "hearth-cuda"])
def test_the_package_says_what_it_is(release, name):
    package = release.package if name == "hearth" else release.cuda_package
    told = subprocess.run(["dpkg-deb", "-f", package], capture_output=True, text=True, check=True).stdout
    field = dict(re.findall(r"^([\w-]+): (.*)$", told, re.MULTILINE))
    assert field["Package"] == name
    assert field["Version"].endswith(f"-1~deb{NUMBER[release.suite]}")
    assert package.name == f"{name}_{field['Version']}_{field['Architecture']}.deb"
    # dpkg-shlibdeps lists shared libraries with the lowest version that works. NVIDIA's libraries are not
    # among them, because the programs look for those at start.
    for library in ("libc6 (>= ", "libcpp-httplib0.", "libpcre2-8-0 (>= ", "libutf8proc",
                    "libspdlog1.", "libprometheus-cpp-core1.",
                    "libcurl4", "libssl3"):
        assert library in field["Depends"]
    assert "nvidia" not in field["Depends"] and "cuda" not in field["Depends"]
    print(f"{release.suite}: {package.name}, {package.stat().st_size / 1e6:.1f} MB, "
          f"installed {int(field['Installed-Size']) / 1e3:.1f} MB")


@pytest.mark.parametrize("name", ["hearth", "hearth-cuda"])
def test_lintian_has_no_error(release, name):
    package = release.package if name == "hearth" else release.cuda_package
    shutil.copy(package, release.builder.root / "root/package.deb")
    done = release.builder.run("lintian --fail-on none --allow-root --no-cfg /root/package.deb 2>&1",
                               check=False)
    tags = [line for line in done.stdout.splitlines() if re.match(r"[EW]: ", line)]
    unexpected = [line for line in tags if not any(known in line for known in KNOWN_WARNINGS)]
    assert done.returncode == 0 and unexpected == [], done.stdout


# Debian's own archive requires more than a package from elsewhere has.
KNOWN_WARNINGS = {
    "initial-upload-closes-no-bugs",  # in Debian's tracker; the package is not in the archive
}


def files_of_ours(system):
    """What is left of Hearth in a system, except for the package manager's logs and the package itself."""
    found = system.run("find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /srv/models -o "
                       "-path /root -o -path /var/log -o -path /var/lib/apt -o -path /var/cache/apt \\) "
                       "-prune -o -iname '*hearth*' -print").stdout
    return sorted(found.split())


def test_without_systemd_as_in_a_container(release):
    system = release.fresh("container")
    installed = system.run("apt-get install -y -qq --no-install-recommends /root/hearth.deb")
    said = installed.stdout + installed.stderr
    assert f'no model is named yet; put model = "/path/to/MODEL.gguf" into {CONFIG}' in said
    assert "/usr/bin/hearthd" in files_of_ours(system) and "fail" not in said.lower().replace("fail-safe", "")
    assert system.run("getent group hearth").stdout.startswith("hearth:x:")
    system.run("hearthd --version && hearth-profiler --version && test -L "
               "/etc/systemd/system/multi-user.target.wants/hearthd.service")

    # Runs the unit's command by hand, as a user that exists nowhere, with the unit's folders as systemd would
    # make them.
    start = system.run("sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/hearthd.service").stdout.strip()
    assert start == f"/usr/bin/hearthd --config {CONFIG}"
    system.run(f"mkdir -p /srv/models && {MODEL_LINE}")
    shutil.copy(MODEL, system.root / "srv/models")
    answer = system.run(
        "mkdir -m 700 /var/cache/hearth && chown 61184:61184 /var/cache/hearth\n"
        "as_service='setpriv --reuid 61184 --regid 61184 --clear-groups --no-new-privs env "
        "XDG_CACHE_HOME=/var/cache HEARTH_PORT=0'\n"
        f"$as_service {start} 2>/tmp/log & server=$!\n"
        "for i in $(seq 600); do "
        "port=$(sed -n 's/.*http:..127.0.0.1:\\([0-9]*\\).*/\\1/p' /tmp/log | head -n 1); "
        "[ -n \"$port\" ] && HEARTH_PORT=$port hearthd --healthcheck && break; sleep 0.1; done\n"
        "kill $server; wait $server; cat /tmp/log >&2").stdout
    assert '"status":"ok"' in answer.replace(" ", ""), answer

    system.run("apt-get remove -y -qq hearth")
    assert ([path for path in files_of_ours(system)
             if path.startswith(("/usr", "/etc/hearth", "/var/cache"))]
            == ["/etc/hearth", CONFIG, "/var/cache/hearth"])
    system.run("dpkg --purge hearth")
    assert files_of_ours(system) == []
    assert system.run("getent group hearth", check=False).returncode != 0


def state(booted):
    shown = booted.run(
        "systemctl show hearthd -p ActiveState,SubState,Result,NRestarts,MainPID,ConditionResult").stdout
    return dict(line.split("=", 1) for line in shown.splitlines())


def test_under_systemd_from_install_to_purge(release):
    system = release.fresh("booted")
    release.repack(system, "higher", "s/^Version: .*/Version: 9.0-1/")
    models = release.work / "models"
    models.mkdir(exist_ok=True)
    shutil.copy(MODEL, models)
    (system.root / "srv/models").mkdir(parents=True)
    try:
        with BootedSystem(system, {"/srv/models": models}) as booted:
            life_of_a_service(release, system, booted)
    except BootedSystem.CannotBoot as why:
        pytest.skip(f"not run: {why}")


def life_of_a_service(release, system, booted):
    # 1. Install. Without a model the unit is enabled and idle, and its status says what to do.
    fetched = fetch_dependencies(system, "/root/hearth.deb")
    begin = time.monotonic()
    said = booted.run("apt-get install -y -qq /root/hearth.deb 2>&1").stdout
    installed_s = time.monotonic() - begin
    assert f"no model is named yet; put model = \"/path/to/MODEL.gguf\" into {CONFIG}" in said, said
    assert booted.run("systemctl is-enabled hearthd").stdout.strip() == "enabled"
    assert (state(booted)["ActiveState"], state(booted)["NRestarts"]) == ("inactive", "0")
    status = booted.run("systemctl status hearthd", check=False).stdout
    assert "no model is named yet" in status, status
    assert "hearthd" not in booted.run("systemctl --failed --plain").stdout

    # 2. Name a model, start the service, send a request.
    begin = time.monotonic()
    booted.run(f"{MODEL_LINE} && systemctl start hearthd")  # Type=notify: returns once the model is served
    answer = booted.ask("/v1/completions", QUESTION)
    answered_s = time.monotonic() - begin
    assert answer["usage"]["completion_tokens"] == 8
    print(f"{release.suite}: packages fetched in {fetched:.1f} s; apt install {installed_s:.1f} s; start and "
          f"first answer {answered_s:.1f} s")
    assert state(booted)["ActiveState"] == "active"
    process = state(booted)["MainPID"]
    seen = booted.run(f"cat /proc/{process}/status /proc/{process}/limits").stdout
    uid = int(re.search(r"^Uid:\t(\d+)", seen, re.MULTILINE).group(1))
    assert 61184 <= uid <= 65519  # a dynamic user
    assert (re.search(r"^NoNewPrivs:\t1$", seen, re.MULTILINE)
            and re.search(r"^CapBnd:\t0+$", seen, re.MULTILINE))
    assert re.search(r"^Seccomp:\t2$", seen, re.MULTILINE)
    assert re.search(r"^Max core file size +0 ", seen, re.MULTILINE)
    # Checks the unit rather than the process, because a container may not raise its limit above this
    # machine's.
    assert booted.run("systemctl show hearthd -p LimitMEMLOCK").stdout.strip() == "LimitMEMLOCK=infinity"
    log = booted.run("journalctl -u hearthd -o cat").stdout
    assert "are not confined" not in log or "sandbox: files are not confined" in log, log

    # 3. A key file of the service's group is read at a reload.
    booted.run(f"echo 'api-key-file = \"/etc/hearth/keys\"' >> {CONFIG} && "
               "echo first-key-of-many > /etc/hearth/keys && chgrp hearth /etc/hearth/keys && "
               "chmod 640 /etc/hearth/keys && systemctl restart hearthd")
    assert booted.ask("/v1/models") is None  # without a key
    booted.run("echo 'second-key-of-many' >> /etc/hearth/keys && systemctl reload hearthd")
    wait_until(lambda: "SIGHUP: reloaded" in booted.run("journalctl -u hearthd -o cat").stdout, "the reload")
    assert state(booted)["NRestarts"] == "0"

    # 4. A wrong configuration makes startup fail with one message, once.
    booted.run(f"cp {CONFIG} /tmp/right && echo 'slotts = 3' >> {CONFIG}")
    assert booted.run("systemctl restart hearthd", check=False).returncode != 0
    time.sleep(6)  # by the clock: longer than RestartSec, after which it must not have been restarted
    assert state(booted)["ActiveState"] == "failed" and state(booted)["NRestarts"] == "0"
    assert "unknown key 'slotts'; did you mean slots?" in booted.run(
        "systemctl status hearthd", check=False).stdout
    booted.run(f"cp /tmp/right {CONFIG} && sed -i '/api-key-file/d' {CONFIG} && systemctl restart hearthd")
    assert booted.ask("/v1/completions", QUESTION)["usage"]["completion_tokens"] == 8

    # 5. The service comes back when it is killed, and after its units are started again as at a reboot.
    old = state(booted)["MainPID"]
    booted.run(f"kill -KILL {old}")
    wait_until(lambda: state(booted)["ActiveState"] == "active"
                       and state(booted)["MainPID"] not in (old, "0"), "a restart")

    # 6. An upgrade restarts it with the new version and keeps the configuration.
    before = booted.run(f"cat {CONFIG}").stdout
    old = state(booted)["MainPID"]
    booted.run("apt-get install -y -qq --no-install-recommends /root/higher.deb")
    assert booted.run("dpkg-query -W -f '${Version}' hearth").stdout == "9.0-1"
    assert state(booted)["ActiveState"] == "active" and state(booted)["MainPID"] != old
    assert booted.run(f"cat {CONFIG}").stdout == before
    assert booted.ask("/v1/completions", QUESTION)["usage"]["completion_tokens"] == 8

    # 7. Removed: it is stopped and gone, the configuration stays. Purged: nothing is left.
    booted.run("apt-get remove -y -qq hearth")
    assert state(booted)["ActiveState"] == "inactive" and booted.ask("/health") is None
    assert booted.run(f"cat {CONFIG}").stdout == before
    booted.run("dpkg --purge hearth")
    assert files_of_ours(system) == []


def test_hearth_cuda_serves_without_a_gpu_and_takes_the_place_of_hearth(release):
    system = release.fresh("swapped")
    shutil.copy(release.cuda_package, system.root / "root/hearth-cuda.deb")
    system.run("apt-get install -y -qq --no-install-recommends /root/hearth.deb && mkdir -p /srv/models")
    shutil.copy(MODEL, system.root / "srv/models")
    try:
        with BootedSystem(system) as booted:
            booted.run(MODEL_LINE)
            swaps(system, booted)
    except BootedSystem.CannotBoot as why:
        pytest.skip(f"not run: {why}")


def swaps(system, booted):
    configured = booted.run(f"cat {CONFIG}").stdout
    for old, new in (("hearth", "hearth-cuda"), ("hearth-cuda", "hearth"), ("hearth", "hearth-cuda")):
        booted.run(f"apt-get install -y -qq --no-install-recommends /root/{new}.deb")
        assert booted.run(f"dpkg-query -W -f '${{db:Status-Status}}' {new}").stdout == "installed"
        left = booted.run(f"dpkg-query -W -f '${{db:Status-Status}}' {old}", check=False).stdout
        assert left in ("config-files", "not-installed", "")
        booted.run(f"dpkg --purge {old}", check=False)  # the rest belongs to the other package
        assert booted.run(f"cat {CONFIG}").stdout == configured
        assert (state(booted)["ActiveState"], booted.run("systemctl is-enabled hearthd").stdout) == (
            "active", "enabled\n")
        assert booted.ask("/v1/completions", QUESTION)["usage"]["completion_tokens"] == 8
    log = booted.run("journalctl -u hearthd -o cat").stdout.splitlines()
    assert "CUDA: none (no NVIDIA driver), running on the CPU" in [
        line for line in log if "CUDA: " in line][-1]
    booted.run("dpkg --purge hearth-cuda")
    assert files_of_ours(system) == []


def fetch_dependencies(system, package):
    """Downloads from outside, because a booted system has no network. Returns the seconds it took."""
    begin = time.monotonic()
    system.run(f"apt-get install -y -qq --download-only {package}")
    return time.monotonic() - begin


def test_the_service_pulls_its_model(release):
    """model = "hf:...": from a hub that a name server knows and whose certificate the system trusts, like the
    real one."""
    name = "hub.test"
    certificate, key = named_hub.certificate(name, release.work)
    system = release.fresh("pulling")
    system.run("apt-get install -y -qq /root/hearth.deb")  # with what it recommends: certificates
    shutil.copy(certificate, system.root / "usr/local/share/ca-certificates")
    system.run("update-ca-certificates")
    try:
        with BootedSystem(system) as booted:
            booted.run(f"echo 'nameserver 127.0.0.1' >/etc/resolv.conf && echo 'model = \"hf:lab/model\"\n"
                       f"endpoint = \"https://{name}:{named_hub.PORT}\"' >>{CONFIG}")
            pulls_of_a_service(booted, [name, certificate, key, SMALL_MODEL])
    except BootedSystem.CannotBoot as why:
        pytest.skip(f"not run: {why}")


@contextlib.contextmanager
def hub_beside(booted, hub):
    """The hub in the booted system's network, until the `with` ends."""
    process = subprocess.Popen([*booted.enter("--net"), sys.executable, named_hub.__file__, *map(str, hub)],
                               stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("https://")
        yield
    finally:
        process.terminate()
        process.wait()


def pulls_of_a_service(booted, hub):
    # 1. The network is not up yet, as after a boot: systemd tries again until it is.
    assert booted.run("systemctl start hearthd", check=False).returncode != 0
    wait_until(lambda: state(booted)["NRestarts"] != "0", "the next try")
    with hub_beside(booted, hub):
        wait_until(lambda: state(booted)["ActiveState"] == "active", "the model to be pulled and served")
        assert booted.ask("/v1/completions", QUESTION)["usage"]["completion_tokens"] == 8
    log = booted.run("journalctl -u hearthd -o cat").stdout
    assert "is this machine online?" in log and log.count("hf:lab/model") < 20, log
    # 2. The model is in the service's cache, and a start needs no network any more.
    models = "/var/cache/hearth/models"
    assert SMALL_MODEL.stem in booted.run(f"hearthd list --models {models}").stdout
    booted.run("systemctl restart hearthd")
    assert booted.ask("/v1/completions", QUESTION)["usage"]["completion_tokens"] == 8
    with hub_beside(booted, hub):
        # 3. An error that no later try can repair makes startup fail with one message, once.
        booted.run(f"sed -i 's/:lab.model/:lab\\/other/' {CONFIG}")
        assert booted.run("systemctl restart hearthd", check=False).returncode != 0
        time.sleep(6)  # by the clock: longer than RestartSec, after which it must not have been restarted
        assert state(booted)["ActiveState"] == "failed" and state(booted)["NRestarts"] == "0"
        assert "no such repository" in booted.run("systemctl status hearthd", check=False).stdout
        # 4. root pulls into a folder of its own, and the service serves from there.
        url = f"https://{hub[0]}:{named_hub.PORT}"
        booted.run(f"rm -r {models} && hearthd pull --models /srv/models --endpoint {url} hf:lab/model")
    booted.run(f"sed -i 's/:lab.other/:lab\\/model/' {CONFIG} && "
               f"echo 'models = \"/srv/models\"' >>{CONFIG} && systemctl start hearthd")
    assert booted.ask("/v1/completions", QUESTION)["usage"]["completion_tokens"] == 8


def as_someone(system, script, check=True):
    """Runs bash in a login of an unprivileged user, in the home folder."""
    return system.run(
        "cd /home/someone && exec setpriv --reuid someone --regid someone --init-groups --no-new-privs env "
        "HOME=/home/someone HEARTH_WERROR=ON bash -l -c " + shlex.quote(f"set -e\n{script}"), check=check)


def test_without_root_and_without_the_packages_for_building_a_sentence_says_what_to_install(release):
    system = release.fresh("bare")
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, system.root / "srv/hearth"], check=True)
    system.run(
        "useradd --create-home someone && mv /srv/hearth /home/someone && chown -R someone: /home/someone")
    done = as_someone(system, "hearth/server/run.sh", check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stdout + done.stderr
    assert re.search(
        r"neither root nor sudo .* ask for them to be installed: apt-get install .* g\+\+ cmake ",
        done.stderr), done.stderr


def test_without_root(release):
    """Acts as an unprivileged user who has the build packages: builds, installs below a prefix, serves;
    unpacks the package below a folder, serves."""
    builder, model = release.builder, f"/srv/models/{MODEL.name}"
    builder.run("userdel -r someone 2>/dev/null || true; useradd --create-home someone; mkdir -p /srv/models")
    shutil.copy(MODEL, builder.root / "srv/models")
    shutil.copy(release.package, builder.root / "home/someone/hearth.deb")
    # root compiles what takes long first, with this machine's compiler cache, which only root can use.
    builder.run("cd /home/someone && git clone -q /src hearth && cd hearth && server/run.sh --build-only "
                f"--model {model} && chown -R someone: /home/someone", binds=compiler_cache(),
                environment={**BUILD, "CCACHE_BASEDIR": "/home/someone/hearth"})
    # One file is compiled, both programs are linked. Packages are not mentioned, because all are installed.
    said = as_someone(builder, "cd hearth && touch config/suggest.cpp && "
                               f"server/run.sh --build-only --model {model} 2>&1").stdout
    assert re.match(r"\[", said) and "ackages" not in said and "root" not in said, said
    as_someone(builder, "cmake --install hearth/build/release --prefix ~/.local --strip && "
                        "dpkg -x hearth.deb unpacked && test ! -w /etc")
    for program in (".local/bin/hearthd", "unpacked/usr/bin/hearthd"):
        served = as_someone(builder, f"""
            {program} --port 0 --model {model} 2>log & server=$!
            for i in $(seq 600); do
              port=$(sed -n 's/.*http:..127.0.0.1:\\([0-9]*\\).*/\\1/p' log | head -n 1)
              [ -z "$port" ] || ! HEARTH_PORT=$port {program} --healthcheck || break
              sleep 0.1
            done
            kill $server
            wait $server""")
        assert '"status":"ok"' in served.stdout.replace(" ", ""), served.stdout + served.stderr
    # The next login finds the program, its manual pages and bash's completion.
    local = "/home/someone/.local"
    found = as_someone(builder, """
        command -v hearthd hearth-profiler
        man -w hearthd hearth.toml
        . /usr/share/bash-completion/bash_completion
        _completion_loader hearthd || true  # 124: it is loaded, try again
        complete -p hearthd""").stdout.splitlines()
    assert found[:4] == [f"{local}/bin/hearthd",
                         f"{local}/bin/hearth-profiler", f"{local}/share/man/man1/hearthd.1",
                         f"{local}/share/man/man5/hearth.toml.5"], found
    assert "hearthd" in found[4] and "-F" in found[4], found
    for file in ("share/zsh/site-functions/_hearthd", "share/fish/vendor_completions.d/hearthd.fish"):
        assert (builder.root / f"home/someone/.local/{file}").is_file()
