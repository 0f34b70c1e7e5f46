"""Builds docker/Dockerfile with buildah and runs the image like a container engine, but without one.

mmdebstrap makes the base image, because no registry is used. Everything is in one folder that is deleted at
the end. Needs root. A container here has a read-only root, no capability, no new privileges, its own
processes, and an isolated network. (buildah runs containers too, but not read-only; crun and runc need
control groups, which CI machines do not always provide.)
"""
import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ("buildah", "ccache", "curl", "mmdebstrap", "nsenter", "unshare")
PATIENCE = 120  # seconds until a wait is given up; far above what anything takes, for slow shared machines


def reason_not_to_run():
    if os.geteuid() != 0:
        return "not run: building images here needs root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"not run: {', '.join(missing)} not installed (docker/install-deps.sh image)"
    if subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"],
                      capture_output=True).returncode != 0:
        return "not run: this system does not allow namespaces"
    return None


def run(*command, **options):
    """The command's standard output. pytest shows its standard error if the test fails."""
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, **options).stdout


class Workshop:
    """Builds images: buildah with its storage in `folder`."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "tmp").mkdir()

    def buildah(self, *arguments):
        return run("buildah", "--storage-driver", "vfs", "--root", self.folder / "storage",
                   "--runroot", self.folder / "run", *arguments,
                   env={**os.environ, "BUILDAH_ISOLATION": "chroot", "TMPDIR": str(self.folder / "tmp")})

    def make_base(self, suite, env=None):
        """debian:SUITE-slim: a minimal Debian without manual pages and translations, whose dpkg does not wait
        for the disk. env: variables that are set in the build stage, because docker/Dockerfile takes nothing
        else from its base."""
        container = self.buildah("from", "scratch").strip()
        root = self.buildah("mount", container).strip()
        left_out = ["path-exclude=/usr/share/doc/*",
                    "path-include=/usr/share/doc/*/copyright", "path-exclude=/usr/share/man/*",
                    "path-exclude=/usr/share/info/*", "path-exclude=/usr/share/locale/*"]
        run("unshare", "--mount",  # its mounts end with it
            "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--format=directory",
            *(f"--dpkgopt={option}" for option in ["force-unsafe-io", *left_out]),
            '--aptopt=Acquire::Languages "none"', suite, root,
            env={**os.environ, "TMPDIR": str(self.folder / "tmp")})
        for name, value in (env or {}).items():
            self.buildah("config", f"--env={name}={value}", container)
        self.buildah("commit", "--quiet", "--rm", "--timestamp=0", "--format=docker", container,
                     f"docker.io/library/debian:{suite}-slim")

    def build(self, tag, context=ROOT, binds=None, **build_args):
        """Builds docker/Dockerfile from `context`. binds: {path in the build stage: path here}; they are in
        no image."""
        options = [f"--volume={here}:{there}" for there, here in (binds or {}).items()]
        options += [f"--build-arg={name}={value}" for name, value in build_args.items()]
        # Do not make a layer for each step: the compiler's files would get the times of the layers, and the
        # compiler cache would take the compiler for a different one.
        self.buildah("build", "--layers=false", "--pull=never", "--format=docker",
                     "--timestamp=0", f"--tag={tag}", *options,
                     f"--file={context}/docker/Dockerfile", context)
        return Image(self, tag)


class Image:
    def __init__(self, workshop, tag):
        self.workshop, self.tag = workshop, tag
        inspected = json.loads(workshop.buildah("inspect", "--type", "image", tag))["Docker"]
        self.config, self.layers = inspected["config"], inspected["rootfs"]["diff_ids"]

    @contextlib.contextmanager
    def unpacked(self):
        """The image's root folder, for as long as it is needed."""
        container = self.workshop.buildah("from", "--pull=never", self.tag).strip()
        try:
            yield pathlib.Path(self.workshop.buildah("mount", container).strip())
        finally:
            self.workshop.buildah("rm", container)


class Container:
    """Runs the image's entrypoint with `arguments`, as user `uid` of group `gid`, in `root`, the image's root
    folder."""

    def __init__(self, image, root, folder, arguments=(), env=(), models=None, uid=1000, gid=1000,
                 cache=None):
        self.image, self.root, self.log_file = image, root, pathlib.Path(folder) / "log"
        self.user, self.env = (uid, gid), dict(entry.split("=", 1) for entry in [*image.config["Env"], *env])
        self.spec = json.dumps(
            {"root": str(root), "command": image.config["Entrypoint"] + list(arguments), "env": self.env,
             "uid": uid, "gid": gid, "models": str(models), "cache": str(cache) if cache else None})

    def __enter__(self):
        with open(self.log_file, "w") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--propagation=private", "--fork",
                 "--kill-child", sys.executable, __file__, self.spec],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def log(self):
        return self.log_file.read_text()

    def pid(self):
        """The server's process id on this machine: unshare's child. 0 until it exists."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(children.read_text() or 0) if self.process.poll() is None else 0

    def check_health(self):
        """Runs the image's health check as an engine does: in the container, beside the server. Returns
        whether it passed."""
        kind, *command = self.image.config["Healthcheck"]["Test"]
        assert kind == "CMD", "the image has no shell that a health check could use"
        if not self.pid() or os.path.basename(os.readlink(f"/proc/{self.pid()}/exe")) != command[0]:
            return False  # still entering the container
        uid, gid = self.user
        command[0] = next(path for path in (f"{folder}/{command[0]}"
                                            for folder in self.env["PATH"].split(":"))
                          if (self.root / path.lstrip("/")).exists())
        return subprocess.run(["nsenter", f"--target={self.pid()}", "--mount", "--net", "--pid", "--root",
                               "--wd", f"--setuid={uid}", f"--setgid={gid}", *command],
                              env=self.env, capture_output=True).returncode == 0

    def wait_until_healthy(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"hearthd ended by itself:\n{self.log()}"
            if self.check_health():
                return
            time.sleep(0.2)
        raise AssertionError(f"the health check never passed:\n{self.log()}")

    def ask(self, path, body=None, *options):
        """Sends a request from within the container's network, which cannot be reached otherwise."""
        data = ["--data", json.dumps(body)] if body else []
        return run("nsenter", f"--net=/proc/{self.pid()}/ns/net", "curl",
                   "--silent", "--show-error", "--fail-with-body",
                   *options, *data, f"http://127.0.0.1:8080{path}")

    def stop(self):
        """Sends the image's stop signal; returns the server's exit code."""
        os.kill(self.pid(), getattr(signal, self.image.config["StopSignal"]))
        return self.process.wait(timeout=PATIENCE)


def enter(spec):
    """Runs in new namespaces and becomes a container's server."""
    def mount(*arguments):
        subprocess.run(["mount", *arguments], check=True)

    # 1. Set up the loopback device, which is the whole network.
    with socket.socket() as any_socket:
        # SIOCSIFFLAGS, IFF_UP | IFF_RUNNING (linux/sockios.h, linux/if.h)
        set_flags, up_and_running = 0x8914, 0x41
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", up_and_running))

    # 2. Make the root read-only, except for the cache.
    root = spec["root"]
    mount("--bind", root, root)
    mount("-t", "proc", "proc", f"{root}/proc")
    mount("--rbind", "/dev", f"{root}/dev")
    mount("--bind", spec["models"], f"{root}/models")
    mount("-o", "remount,bind,ro", f"{root}/models")
    if spec["cache"]:
        mount("--bind", spec["cache"], f"{root}/cache")
    mount("-o", "remount,bind,ro", root)
    os.chroot(root)
    os.chdir("/")

    # 3. Change to the user, who has no special rights and cannot get any by starting programs.
    set_no_new_privileges, drop_bounding = 38, 24  # PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP (linux/prctl.h)
    prctl = ctypes.CDLL(None).prctl
    capability = 0
    while prctl(drop_bounding, capability, 0, 0, 0) == 0:
        capability += 1
    os.setgroups([])
    os.setgid(spec["gid"])
    os.setuid(spec["uid"])
    if prctl(set_no_new_privileges, 1, 0, 0, 0) != 0:
        raise OSError("no_new_privs was refused")
    os.execvpe(spec["command"][0], spec["command"], spec["env"])


if __name__ == "__main__":
    enter(json.loads(sys.argv[1]))
