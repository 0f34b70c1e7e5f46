"""Runs a Dockerfile's steps in plain folders, by debootstrap and chroot: a stand-in where there is no Docker engine.

Knows the instructions docker/*.Dockerfile use: ARG (defaults), FROM debian:*-slim [AS name], WORKDIR, COPY
[--from=], RUN, USER, ENV, VOLUME, EXPOSE, HEALTHCHECK, ENTRYPOINT (exec form). Anything else is an error, so that the
Dockerfile cannot grow past what is tested. Needs root; mounts live in a private mount namespace and end with it.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess


class Stage:
    """One FROM ... block: its root folder and what later instructions set."""

    def __init__(self, root):
        self.root, self.workdir, self.user = root, "/", "0"
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        self.entrypoint, self.healthcheck = [], []

    def chroot_command(self, command, **binds):
        """A command line that runs `command` (a list) in this root, with /proc and the binds {target: source}."""
        mounts = ["mount -t proc proc {root}/proc", "mount --rbind /dev {root}/dev"]
        mounts += [f"mkdir -p {{root}}{target} && mount --bind {shlex.quote(str(source))} {{root}}{target}"
                   for target, source in binds.items()]
        inner = f"cd {shlex.quote(self.workdir)} && exec {shlex.join(command)}"
        script = " && ".join(mounts + [
            f"exec chroot --userspec={self.user}:{self.user} {{root}} /bin/sh -c {shlex.quote(inner)}"])
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                script.format(root=shlex.quote(str(self.root)))]


def instructions(dockerfile):
    """(keyword, argument) pairs; continuation lines joined, comments dropped."""
    text = re.sub(r"^\s*#.*\n", "", dockerfile, flags=re.MULTILINE)
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if line.strip():
            keyword, _, argument = line.strip().partition(" ")
            yield keyword.upper(), argument.strip()


class Builder:
    """Executes instructions; `context` is the repository, of which tracked files count."""

    def __init__(self, context, work, run_binds=None, run_env=None):
        self.context, self.work = pathlib.Path(context), pathlib.Path(work)
        self.run_binds, self.run_env = run_binds or {}, run_env or {}
        self.args, self.stages, self.stage = {}, {}, None

    def build(self, dockerfile):
        for keyword, argument in instructions(dockerfile):
            getattr(self, "do_" + keyword.lower(), None) or self.unknown(keyword)
            print(f"--- {keyword} {argument}", flush=True)
            getattr(self, "do_" + keyword.lower())(argument)
        return self.stage

    def unknown(self, keyword):
        raise ValueError(f"the Dockerfile uses {keyword}, which dockerfile_steps.py does not run")

    def do_arg(self, argument):
        name, _, default = argument.partition("=")
        self.args[name] = default

    def do_from(self, argument):
        for name, value in self.args.items():
            argument = argument.replace("${" + name + "}", value)
        match = re.fullmatch(r"debian:(\w+)-slim(?: AS (\w+))?", argument)
        suite, name = match.groups()
        base = self.work / f"base-{suite}"
        if not base.exists():
            subprocess.run(["debootstrap", "--variant=minbase", suite, str(base)], check=True,
                           stdout=subprocess.DEVNULL)
            shutil.copy("/etc/resolv.conf", base / "etc/resolv.conf")
        root = self.work / f"stage-{len(self.stages)}"
        subprocess.run(["cp", "-a", str(base), str(root)], check=True)
        self.stage = Stage(root)
        self.stages[name or str(len(self.stages))] = self.stage

    def do_workdir(self, argument):
        self.stage.workdir = argument
        (self.stage.root / argument.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def do_copy(self, argument):
        source_root, files = self.context, None
        if argument.startswith("--from="):
            name, _, argument = argument.removeprefix("--from=").partition(" ")
            source_root = self.stages[name].root
        *sources, target = argument.split()
        base = self.stage.root / os.path.join(self.stage.workdir, target).lstrip("/")
        if sources == ["."]:
            files = subprocess.run(["git", "ls-files"], cwd=self.context, capture_output=True, text=True,
                                   check=True).stdout.split("\n")[:-1]
            for file in files:
                destination = base / file
                destination.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.context / file, destination)
            return
        base.mkdir(parents=True, exist_ok=True)
        for source in sources:
            shutil.copy2(source_root / source.lstrip("/"), base)

    def do_run(self, argument):
        stage = self.stage
        command = stage.chroot_command(["sh", "-ec", argument], **self.run_binds)
        subprocess.run(command, check=True, env={**stage.env, **self.run_env}, stdin=subprocess.DEVNULL)

    def do_user(self, argument):
        self.stage.user = argument

    def do_env(self, argument):
        self.stage.env.update(pair.split("=", 1) for pair in shlex.split(argument))

    def do_healthcheck(self, argument):
        self.stage.healthcheck = json.loads(argument[argument.index("CMD") + 3:])

    def do_entrypoint(self, argument):
        self.stage.entrypoint = json.loads(argument)  # exec form: a shell would swallow signals

    def do_volume(self, argument):
        assert (self.stage.root / argument.lstrip("/")).is_dir(), f"VOLUME {argument} is not made by the image"

    def do_expose(self, argument):
        int(argument)
