"""Tests which files `cmake --install` installs, below DESTDIR and below a user's own prefix, and how systemd
reads the unit."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HEARTH_BUILD_DIR", ROOT / "build" / "release"))

PROGRAMS = {"bin/hearthd", "bin/hearth-profiler"}
PAGES = {"share/man/man1/hearthd.1", "share/man/man1/hearth-profiler.1", "share/man/man5/hearth.toml.5"}
COMPLETIONS = {
    "share/bash-completion/completions/hearthd", "share/bash-completion/completions/hearth-profiler",
    "share/fish/vendor_completions.d/hearthd.fish", "share/fish/vendor_completions.d/hearth-profiler.fish"}
DOCUMENTS = {f"share/doc/hearth/{name}" for name in (
    "LICENSE", "README.md", "sbom.json", "docs/README.md", "docs/running.md",
    "docs/configuration.md", "examples/hearth.toml",
    "examples/grafana-dashboard.json")}
SERVICE = {"lib/systemd/system/hearthd.service", "lib/sysusers.d/hearth.conf"}
BELOW_PREFIX = PROGRAMS | PAGES | COMPLETIONS | DOCUMENTS | SERVICE


def install(prefix, destdir=None):
    environment = {name: value for name, value in os.environ.items() if name != "DESTDIR"}
    if destdir is not None:
        environment["DESTDIR"] = str(destdir)
    done = subprocess.run(["cmake", "--install", BUILD, "--prefix", str(prefix), "--strip"], env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_user_installs_without_root_below_a_prefix(tmp_path):
    prefix = tmp_path / "home/.local"
    install(prefix)
    found = files_below(prefix)
    assert BELOW_PREFIX | {"etc/hearth/hearth.toml", "share/zsh/site-functions/_hearthd"} <= found
    assert {name.split("/")[0] for name in found} == {"bin", "etc", "lib", "share"}
    assert files_below(tmp_path) == {f"home/.local/{name}" for name in found}  # nothing beside it
    unit = (prefix / "lib/systemd/system/hearthd.service").read_text()
    assert (f"ExecStart={prefix}/bin/hearthd --config {prefix}/etc/hearth/hearth.toml\n" in unit
            and "@" not in re.sub(r"@(system-service|privileged)", "", unit))
    version = subprocess.run([prefix / "bin/hearthd", "--version"], capture_output=True, text=True,
                             check=True)
    assert version.stdout.startswith("hearthd ")
    checked = subprocess.run([prefix / "bin/hearthd", "--check-config",
                              "--config", prefix / "etc/hearth/hearth.toml",
                              "--model", ROOT / "tests/data/relu/relu-5m-q8_0.gguf"],
                             capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_a_configuration_that_is_there_stays(tmp_path):
    mine = tmp_path / "etc/hearth/hearth.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text("slots = 2\n")
    install(tmp_path)
    assert mine.read_text() == "slots = 2\n"


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """The files of the system's own programs: the prefix /usr, below a folder."""
    root = tmp_path_factory.mktemp("system")
    install("/usr", root)
    return root


def test_the_system_s_own_has_its_configuration_in_etc(system):
    found = files_below(system)
    assert {f"usr/{name}" for name in BELOW_PREFIX} | {
        "etc/hearth/hearth.toml", "usr/share/zsh/vendor-completions/_hearthd"} <= found
    assert {name.split("/")[0] for name in found} == {"etc", "usr"}


@pytest.mark.parametrize("cuda", ["ON", "OFF"])
def test_a_build_with_cuda_brings_a_drop_in(tmp_path, cuda):
    """Run as a build with and without CUDA would run it, whichever this build is."""
    script = tmp_path / "install_service.cmake"
    text, n = re.subn(r'if\("(ON|OFF)"\)', f'if("{cuda}")', (BUILD / "install_service.cmake").read_text())
    assert n == 1
    script.write_text(text)
    done = subprocess.run(["cmake", "-DCMAKE_INSTALL_PREFIX=/usr", "-P", script], capture_output=True,
                          text=True, env={**os.environ, "DESTDIR": str(tmp_path / "root")})
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "root/usr/lib/systemd/system/hearthd.service.d/cuda.conf").exists() == (cuda == "ON")


def test_the_service_s_condition_is_a_named_model(tmp_path):
    """Exit code 0: a model is named, or the configuration is so wrong that the start must report it. 1: no
    model is named."""
    config = tmp_path / "hearth.toml"

    def condition(text, environment=None):
        config.write_text(text)
        return subprocess.run([BUILD / "hearthd", "--has-model", "--config", config], capture_output=True,
                              text=True, env={"PATH": os.environ["PATH"], **(environment or {})})

    lacking = condition((ROOT / "config/package/hearth.toml").read_text())
    assert lacking.returncode == 1 and lacking.stdout == ""
    assert lacking.stderr == (
        f'hearthd: no model is named yet; put model = "/path/to/MODEL.gguf" into {config}, '
        "then: systemctl restart hearthd\n")
    assert condition('model = "/nowhere.gguf"\n').returncode == 0
    assert condition("", {"HEARTH_MODEL": "/nowhere.gguf"}).returncode == 0
    wrong = condition('modell = "/nowhere.gguf"\n')
    assert (wrong.returncode, wrong.stderr) == (0, "")
    alone = subprocess.run([BUILD / "hearthd", "--has-model"], capture_output=True, text=True, env={})
    assert alone.returncode == 1 and "--model FILE" in alone.stderr


SYSTEMD = pytest.mark.skipif(shutil.which("systemd-analyze") is None,
                             reason="systemd-analyze is not installed")
# The maximum exposure that systemd-analyze may report for the unit, from 0 to 100. The services of Debian's
# daemons have 70 to 96. With CUDA it is higher, because the driver needs its devices.
MOST_EXPOSURE = {"hearthd.service": 17, "with CUDA": 20}


def unit_to_verify(system, tmp_path, cuda):
    """The unit with programs that exist here, because systemd-analyze checks that they do."""
    unit = (system / "usr/lib/systemd/system/hearthd.service").read_text().replace(
        "/usr/bin/hearthd", str(BUILD / "hearthd"))
    path = tmp_path / "hearthd.service"
    path.write_text(unit)
    if cuda:
        (tmp_path / "hearthd.service.d").mkdir()
        shutil.copy(ROOT / "config/package/cuda.conf", tmp_path / "hearthd.service.d")
    return path


@SYSTEMD
@pytest.mark.parametrize("cuda", [False, True])
def test_systemd_finds_no_fault_in_the_unit(system, tmp_path, cuda):
    unit = unit_to_verify(system, tmp_path, cuda)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit],
                          capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@SYSTEMD
@pytest.mark.parametrize("cuda", [False, True])
def test_the_unit_keeps_its_hardening(system, tmp_path, cuda):
    unit = unit_to_verify(system, tmp_path, cuda)
    most = MOST_EXPOSURE["with CUDA" if cuda else "hearthd.service"]
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager",
                           f"--threshold={most}", unit],
                          capture_output=True, text=True, env={**os.environ, "SYSTEMD_COLORS": "0"})
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_unit_says_what_the_documentation_promises(system):
    unit = (system / "usr/lib/systemd/system/hearthd.service").read_text()
    for line in ("Type=notify", "WatchdogSec=60", "DynamicUser=yes", "LimitMEMLOCK=infinity", "LimitCORE=0",
                 "RestartPreventExitStatus=2", "EnvironmentFile=-/etc/default/hearth", "Restart=on-failure"):
        assert f"\n{line}\n" in unit
    stop = int(re.search(r"TimeoutStopSec=(\d+)", unit).group(1))
    drain = re.search(r"^#drain-seconds = (\d+)$", (ROOT / "config/hearth.toml").read_text(), re.MULTILINE)
    assert stop > int(drain.group(1))


def test_the_package_s_configuration_is_accepted():
    """The unit as it is shipped, and with the changes that it proposes."""
    text = (ROOT / "config/package/hearth.toml").read_text()
    keys = re.findall(r"^#([a-z-]+) = ", text, re.MULTILINE)
    known = re.findall(r"^#([a-z-]+) = ", (ROOT / "config/hearth.toml").read_text(), re.MULTILINE)
    assert keys and set(keys) <= set(known)
