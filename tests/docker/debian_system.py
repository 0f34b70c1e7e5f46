"""Debian systems in folders, for tests: made by debootstrap, entered by chroot, and booted by systemd-nspawn
if that works.

Needs root. Mounts are in a private mount namespace and end with what runs there. A booted system has a
network of its own with only a loopback device, so that it does not use this machine's ports.
"""
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import time

PATIENCE = 180  # seconds; far above what anything takes, for slow shared machines


def reason_not_to_run():
    if os.geteuid() != 0:
        return "not run: making a system in a folder needs root"
    missing = [tool
               for tool in ("ccache", "curl", "debootstrap", "git", "unshare") if shutil.which(tool) is None]
    if missing:
        return f"not run: {', '.join(missing)} not installed"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        return "not run: this system does not allow mount namespaces"
    return None


class System:
    """A Debian system in the folder `root`."""

    def __init__(self, root):
        self.root = pathlib.Path(root)

    @classmethod
    def made(cls, suite, root, include=()):
        """Makes it by debootstrap; its apt reaches what this machine reaches, with its proxies and
        certificates."""
        command = ["debootstrap", "--variant=minbase",
                   *([f"--include={','.join(include)}"] if include else []), suite, str(root)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        certificates = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
        if certificates.exists():
            folder = root / "usr/local/share/ca-certificates"
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(certificates, folder / "host.crt")
        return cls(root)

    def copy(self, root):
        subprocess.run(["cp", "-a", "--reflink=auto", str(self.root), str(root)], check=True)
        return System(root)

    def command(self, script, binds=None, environment=None):
        """A command line that runs a shell script in this system as its root."""
        root = shlex.quote(str(self.root))
        mounts = [f"mount -t proc proc {root}/proc",
                  f"mount --rbind /dev {root}/dev", f"mount --rbind /sys {root}/sys",
                  f"mount -t tmpfs tmpfs {root}/run"]  # hides this machine's systemd
        mounts += [f"mkdir -p {root}{inside} && mount --bind {shlex.quote(str(outside))} {root}{inside}"
                   for inside, outside in (binds or {}).items()]
        variables = {"HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                     "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                     **(environment or {})}
        variables |= {name: os.environ[name]
                      for name in ("http_proxy", "https_proxy", "no_proxy") if name in os.environ}
        inside = ["env", "-i", *[f"{name}={value}" for name, value in variables.items()], "sh", "-ec", script]
        script = " && ".join([*mounts, f"exec chroot {root} {shlex.join(inside)}"])
        return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script]

    def run(self, script, check=True, **how):
        done = subprocess.run(self.command(script, **how), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True)
        if check:
            assert done.returncode == 0, f"{script}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done


class BootedSystem:
    """The system under its own systemd, until the `with` ends. Raises CannotBoot if this machine cannot do
    that."""

    class CannotBoot(Exception):
        pass

    def __init__(self, system, binds=None):
        self.system, self.process, self.leader = system, None, None
        self.binds = [f"--bind-ro={outside}:{inside}" for inside, outside in (binds or {}).items()]

    def __enter__(self):
        if shutil.which("systemd-nspawn") is None:
            raise self.CannotBoot("systemd-nspawn is not installed")
        self.log = self.system.root.parent / f"{self.system.root.name}.boot.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["systemd-nspawn", "--quiet", "--register=no",
                 "--keep-unit", "--private-network", "--console=pipe",
                 f"--machine={self.system.root.name[-40:]}", *self.binds, f"--directory={self.system.root}",
                 "--boot"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                # The systemd of Debian 13 starts under control groups v1 only with this variable.
                env={**os.environ, "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE": "1"})
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise self.CannotBoot(f"systemd-nspawn ended: {self.log.read_text()[-1500:]}")
            self.leader = self.leader or self.find_leader()
            if (self.leader and self.run("systemctl is-system-running", check=False).stdout.strip()
                    in ("running", "degraded")):
                return self
            time.sleep(0.2)
        self.__exit__(None, None, None)
        raise self.CannotBoot(f"no systemd after {PATIENCE} s: {self.log.read_text()[-1500:]}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            if self.leader:
                os.kill(self.leader, signal.SIGRTMIN + 4)  # power off
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def find_leader(self):
        children = pathlib.Path(
            f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in children:
            try:
                if pathlib.Path(f"/proc/{child}/comm").read_text().strip() in ("systemd", "init"):
                    return int(child)
            except OSError:
                pass
        return None

    def enter(self, *namespaces):
        return ["nsenter", f"--target={self.leader}", *namespaces]

    def run(self, script, check=True):
        done = subprocess.run([
            *self.enter("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"), "env", "-i", "HOME=/root",
            "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=cat",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-ec", script],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if check:
            assert done.returncode == 0, f"{script}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done

    def ask(self, path, body=None):
        """Sends a request from within the system's network. Returns the answer's JSON, or None if there is
        none or it is an error."""
        command = [*self.enter("--net"), "curl", "-sf", "--max-time", "120", f"http://127.0.0.1:8080{path}"]
        if body is not None:
            command += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        done = subprocess.run(command, capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None
