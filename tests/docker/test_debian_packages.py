"""Debian packages, built, installed, run, upgraded and removed in fresh systems of Debian 12 and 13.

What users do: apt install ./hearth.deb, name a model, ask a question. Under systemd where systemd-nspawn can boot a system
here, and without it, as in a container. Takes some minutes a release, and about 6 GB in the temporary folder.
"""
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

from debian_system import BootedSystem, System, reason_not_to_run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))

from hearthd import wait_until  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The model that a first start downloads where it is at hand, else a small one.
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
DEFAULT_MODEL = pathlib.Path(os.environ.get("HEARTH_TEST_MODEL", CACHE / "hearth/SmolLM2-135M-Instruct.Q4_1.gguf"))
MODEL = DEFAULT_MODEL if DEFAULT_MODEL.is_file() else ROOT / "tests/data/relu/relu-5m-q8_0.gguf"
QUESTION = {"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
CONFIG = "/etc/hearth/hearth.toml"
MODEL_LINE = f"echo 'model = \"/srv/models/{MODEL.name}\"' >> {CONFIG}"

pytestmark = [pytest.mark.nightly,
              pytest.mark.skipif(reason_not_to_run() is not None, reason=str(reason_not_to_run()))]


def compiler_cache():
    """This machine's, so that what it has compiled is not compiled again."""
    found = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True, check=True).stdout.strip()
    pathlib.Path(found).mkdir(parents=True, exist_ok=True)
    return {"/ccache": found}


BUILD = {"CCACHE_DIR": "/ccache", "CCACHE_BASEDIR": "/src", "CCACHE_NOHASHDIR": "1", "HEARTH_WERROR": "ON"}


class Release:
    """A release of Debian: a fresh system, one that Hearth is built in, and the package."""

    def __init__(self, suite, work):
        self.suite, self.work = suite, work
        self.base = System.made(suite, work / "base", include=("systemd", "systemd-sysv", "dbus"))
        self.base.run("apt-get update -qq")
        self.builder = self.base.copy(work / "builder")
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, self.builder.root / "src"], check=True)
        self.builder.run("cd /src && docker/install-deps.sh build && git config --system --add safe.directory '*' && "
                         "apt-get install -y -qq --no-install-recommends lintian man-db mandoc bash-completion")
        self.builder.run("cd /src && cmake --preset package -DHEARTH_CUDA=OFF && cmake --build --preset package",
                         binds=compiler_cache(), environment=BUILD)
        packages = list((self.builder.root / "src/build/package").glob("*.deb"))
        assert len(packages) == 1, packages
        self.package = packages[0]

    def fresh(self, name):
        """A system as users have it, with the package at /root/hearth.deb."""
        system = self.base.copy(self.work / name)
        shutil.copy(self.package, system.root / "root/hearth.deb")
        return system

    def repack(self, system, name, changes):
        """The same package with other fields, at /root/NAME.deb: changes is for sed."""
        system.run(f"cd /root && dpkg-deb -R hearth.deb {name} && sed -i '{changes}' {name}/DEBIAN/control && "
                   f"dpkg-deb -Zgzip -z1 -b {name} {name}.deb && rm -rf {name}")


def fields_of_cuda():
    """What config/package/package.cmake says of hearth-cuda, for sed: building its kernels takes too long here."""
    text = (ROOT / "config/package/package.cmake").read_text()
    kinds = dict(re.findall(r'set\(CPACK_DEBIAN_PACKAGE_(PROVIDES|CONFLICTS|REPLACES) "?(\w+)', text))
    assert set(kinds.values()) == {"hearth"} and len(kinds) == 3 and "set(CPACK_PACKAGE_NAME hearth-cuda)" in text
    return ("s/^Package: .*/Package: hearth-cuda/; s/^Version: .*/Version: 9.1-1/; "
            "1i Provides: hearth (= 9.1-1)\\nConflicts: hearth\\nReplaces: hearth")


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def release(request):
    # Not pytest's folder, which stays behind: these systems are gigabytes.
    with tempfile.TemporaryDirectory(prefix="hearth-debian-") as work:
        yield Release(request.param, pathlib.Path(work))


def field(release, name):
    return subprocess.run(["dpkg-deb", "-f", release.package, name], capture_output=True, text=True, check=True).stdout.strip()


def test_the_package_says_what_it_is(release):
    assert field(release, "Package") == "hearth"
    number = {"bookworm": "12", "trixie": "13"}[release.suite]
    version = field(release, "Version")
    assert version.endswith(f"-1~deb{number}")
    assert release.package.name == f"hearth_{version}_{field(release, 'Architecture')}.deb"
    # Shared libraries by dpkg-shlibdeps, with the least version that will do.
    needed = field(release, "Depends")
    for library in ("libc6 (>= ", "libcpp-httplib0.", "libpcre2-8-0 (>= ", "libspdlog1.", "libprometheus-cpp-core1."):
        assert library in needed
    print(f"{release.suite}: {release.package.name}, {release.package.stat().st_size / 1e6:.1f} MB, "
          f"installed {int(field(release, 'Installed-Size')) / 1e3:.1f} MB")


def test_lintian_has_no_error(release):
    shutil.copy(release.package, release.builder.root / "root/hearth.deb")
    done = release.builder.run("lintian --fail-on none --allow-root --no-cfg /root/hearth.deb 2>&1", check=False)
    tags = [line for line in done.stdout.splitlines() if re.match(r"[EW]: ", line)]
    unexpected = [line for line in tags if not any(known in line for known in KNOWN_WARNINGS)]
    assert done.returncode == 0 and unexpected == [], done.stdout


# Debian's own archive asks for more than a package from elsewhere has.
KNOWN_WARNINGS = {
    "initial-upload-closes-no-bugs",  # of Debian's tracker; the package is not in the archive
}


def files_of_ours(system):
    """What is left of Hearth in a system, but for the package manager's logs and the package itself."""
    found = system.run("find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /srv/models -o -path /root "
                       "-o -path /var/log -o -path /var/lib/apt -o -path /var/cache/apt \\) -prune -o -iname '*hearth*' -print").stdout
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

    # The unit's command, by hand, as a user that exists nowhere; the unit's folders, as systemd would make them.
    start = system.run("sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/hearthd.service").stdout.strip()
    assert start == f"/usr/bin/hearthd --config {CONFIG}"
    system.run(f"mkdir -p /srv/models && {MODEL_LINE}")
    shutil.copy(MODEL, system.root / "srv/models")
    answer = system.run(
        "mkdir -m 700 /var/cache/hearth && chown 61184:61184 /var/cache/hearth\n"
        "as_service='setpriv --reuid 61184 --regid 61184 --clear-groups --no-new-privs env XDG_CACHE_HOME=/var/cache HEARTH_PORT=0'\n"
        f"$as_service {start} 2>/tmp/log & server=$!\n"
        "for i in $(seq 600); do port=$(sed -n 's/.*http:..127.0.0.1:\\([0-9]*\\).*/\\1/p' /tmp/log | head -n 1); "
        "[ -n \"$port\" ] && HEARTH_PORT=$port hearthd --healthcheck && break; sleep 0.1; done\n"
        "kill $server; wait $server; cat /tmp/log >&2").stdout
    assert '"status":"ok"' in answer.replace(" ", ""), answer

    system.run("apt-get remove -y -qq hearth")
    assert [path for path in files_of_ours(system) if path.startswith(("/usr", "/etc/hearth", "/var/cache"))] == [
        "/etc/hearth", CONFIG, "/var/cache/hearth"]
    system.run("dpkg --purge hearth")
    assert files_of_ours(system) == []
    assert system.run("getent group hearth", check=False).returncode != 0


def state(booted):
    shown = booted.run("systemctl show hearthd -p ActiveState,SubState,Result,NRestarts,MainPID,ConditionResult").stdout
    return dict(line.split("=", 1) for line in shown.splitlines())


def test_under_systemd_from_install_to_purge(release):
    system = release.fresh("booted")
    release.repack(system, "higher", "s/^Version: .*/Version: 9.0-1/")
    release.repack(system, "cuda", fields_of_cuda())
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
    # 1. Install. Without a model the unit is enabled and at rest, and its status says what to do.
    begin = time.monotonic()
    fetched = booted_install(system, "/root/hearth.deb", booted)
    said = booted.run("apt-get install -y -qq --no-install-recommends /root/hearth.deb 2>&1").stdout
    installed_s = time.monotonic() - begin
    assert f"no model is named yet; put model = \"/path/to/MODEL.gguf\" into {CONFIG}" in said, said
    assert booted.run("systemctl is-enabled hearthd").stdout.strip() == "enabled"
    assert (state(booted)["ActiveState"], state(booted)["NRestarts"]) == ("inactive", "0")
    status = booted.run("systemctl status hearthd", check=False).stdout
    assert "no model is named yet" in status, status
    assert "hearthd" not in booted.run("systemctl --failed --plain").stdout

    # 2. Name a model, start, ask.
    begin = time.monotonic()
    booted.run(f"{MODEL_LINE} && systemctl start hearthd")  # Type=notify: returns once the model is served
    answer = booted.ask("/v1/completions", QUESTION)
    answered_s = time.monotonic() - begin
    assert answer["usage"]["completion_tokens"] == 8
    print(f"{release.suite}: packages fetched in {fetched:.1f} s; apt install {installed_s:.1f} s; start and first answer "
          f"{answered_s:.1f} s")
    assert state(booted)["ActiveState"] == "active"
    process = state(booted)["MainPID"]
    seen = booted.run(f"cat /proc/{process}/status /proc/{process}/limits").stdout
    uid = int(re.search(r"^Uid:\t(\d+)", seen, re.MULTILINE).group(1))
    assert 61184 <= uid <= 65519  # a dynamic user
    assert re.search(r"^NoNewPrivs:\t1$", seen, re.MULTILINE) and re.search(r"^CapBnd:\t0+$", seen, re.MULTILINE)
    assert re.search(r"^Max core file size +0 ", seen, re.MULTILINE)
    # Not of the process: a container may not raise it above this machine's.
    assert booted.run("systemctl show hearthd -p LimitMEMLOCK").stdout.strip() == "LimitMEMLOCK=infinity"
    log = booted.run("journalctl -u hearthd -o cat").stdout
    assert "sandbox: system calls are confined" in log, log
    assert "are not confined" not in log or "sandbox: files are not confined" in log, log

    # 3. A key file of the service's group is read at a reload.
    booted.run(f"echo 'api-key-file = \"/etc/hearth/keys\"' >> {CONFIG} && echo first-key-of-many > /etc/hearth/keys && "
               "chgrp hearth /etc/hearth/keys && chmod 640 /etc/hearth/keys && systemctl restart hearthd")
    assert booted.ask("/v1/models") is None  # without a key
    booted.run("echo 'second-key-of-many' >> /etc/hearth/keys && systemctl reload hearthd")
    wait_until(lambda: "SIGHUP: reloaded" in booted.run("journalctl -u hearthd -o cat").stdout, "the reload")
    assert state(booted)["NRestarts"] == "0"

    # 4. A wrong configuration ends a start with a sentence, once.
    booted.run(f"cp {CONFIG} /tmp/right && echo 'slotts = 3' >> {CONFIG}")
    assert booted.run("systemctl restart hearthd", check=False).returncode != 0
    time.sleep(6)  # longer than RestartSec
    assert state(booted)["ActiveState"] == "failed" and state(booted)["NRestarts"] == "0"
    assert "unknown key 'slotts'; did you mean slots?" in booted.run("systemctl status hearthd", check=False).stdout
    booted.run(f"cp /tmp/right {CONFIG} && sed -i '/api-key-file/d' {CONFIG} && systemctl restart hearthd")
    assert booted.ask("/v1/completions", QUESTION)["usage"]["completion_tokens"] == 8

    # 5. It comes back when it is killed, and after a reboot's worth of starting units anew.
    old = state(booted)["MainPID"]
    booted.run(f"kill -KILL {old}")
    wait_until(lambda: state(booted)["ActiveState"] == "active" and state(booted)["MainPID"] not in (old, "0"), "a restart")

    # 6. An upgrade restarts it with the new version and keeps the configuration.
    before = booted.run(f"cat {CONFIG}").stdout
    old = state(booted)["MainPID"]
    booted.run("apt-get install -y -qq --no-install-recommends /root/higher.deb")
    assert booted.run("dpkg-query -W -f '${Version}' hearth").stdout == "9.0-1"
    assert state(booted)["ActiveState"] == "active" and state(booted)["MainPID"] != old
    assert booted.run(f"cat {CONFIG}").stdout == before
    assert booted.ask("/v1/completions", QUESTION)["usage"]["completion_tokens"] == 8

    # 7. hearth-cuda takes its place, with the configuration; what is left of hearth can be purged.
    booted.run("apt-get install -y -qq --no-install-recommends /root/cuda.deb")
    assert booted.run("dpkg-query -W -f '${db:Status-Status}' hearth-cuda").stdout == "installed"
    assert booted.run("dpkg-query -W -f '${db:Status-Status}' hearth", check=False).stdout in ("config-files", "not-installed", "")
    booted.run("dpkg --purge hearth", check=False)
    assert booted.run(f"cat {CONFIG}").stdout == before
    assert state(booted)["ActiveState"] == "active"
    assert booted.ask("/v1/completions", QUESTION)["usage"]["completion_tokens"] == 8

    # 8. Removed: stopped and gone, the configuration kept. Purged: nothing is left.
    booted.run("apt-get remove -y -qq hearth-cuda")
    assert state(booted)["ActiveState"] == "inactive" and booted.ask("/health") is None
    assert booted.run(f"cat {CONFIG}").stdout == before
    booted.run("dpkg --purge hearth-cuda")
    assert files_of_ours(system) == []


def booted_install(system, package, booted):
    """Fetches what the package depends on, from outside, for a booted system has no network. Returns the seconds it took."""
    begin = time.monotonic()
    system.run(f"apt-get install -y -qq --no-install-recommends --download-only {package}")
    return time.monotonic() - begin


def test_without_root(release):
    """A user without rights, where the packages for building are there: build, install below a prefix, serve; unpack the
    package below a folder, serve."""
    builder = release.builder
    builder.run("useradd --create-home someone; mkdir -p /srv/models")
    shutil.copy(MODEL, builder.root / "srv/models")
    shutil.copy(release.package, builder.root / "home/someone/hearth.deb")
    # What takes long is compiled by root before, from this machine's compiler cache, which is root's alone.
    builder.run(f"cd /home/someone && git clone -q /src hearth && cd hearth && server/run.sh --build-only --model "
                f"/srv/models/{MODEL.name} && chown -R someone: /home/someone", binds=compiler_cache(),
                environment={**BUILD, "CCACHE_BASEDIR": "/home/someone/hearth", "HEARTH_SKIP_DEPS": "1"})
    script = f"""
        cd ~/hearth
        touch config/suggest.cpp  # one file is compiled, both programs are linked
        HEARTH_SKIP_DEPS=1 server/run.sh --build-only --model /srv/models/{MODEL.name} >&2
        cmake --install build/release --prefix ~/.local --strip >&2
        cd ..
        dpkg -x hearth.deb unpacked
        for program in ~/.local/bin/hearthd ~/unpacked/usr/bin/hearthd; do
          "$program" --port 0 --model /srv/models/{MODEL.name} 2>log & server=$!
          for i in $(seq 600); do
            port=$(sed -n 's/.*http:..127.0.0.1:\\([0-9]*\\).*/\\1/p' log | head -n 1)
            [ -z "$port" ] || ! HEARTH_PORT=$port "$program" --healthcheck || break
            sleep 0.1
          done
          kill $server
          wait $server
        done
        test ! -w /etc
        man -l ~/.local/share/man/man1/hearthd.1 | head -n 3
        """
    done = builder.run("exec setpriv --reuid someone --regid someone --init-groups --no-new-privs env HOME=/home/someone "
                       f"sh -ec {shlex.quote(script)}")
    assert done.stdout.replace(" ", "").count('"status":"ok"') == 2, done.stdout + done.stderr
    assert "HEARTHD(1)" in done.stdout
