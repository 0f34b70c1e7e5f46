"""Finds the commands of README.md and docs/, decides which are run, and makes the folder that they are run
in.

Every block of the languages sh, bash, console and python is run as it stands, unless a comment before it says
otherwise. A console has commands behind "$ ", each with what it prints, which is compared. Neither GitHub nor
the site shows the comments:

    <!-- run after: COMMANDS -->   COMMANDS first, in the same folder: what the page takes for granted
    <!-- run nightly -->           it takes long, so only tests/nightly.sh runs it
    <!-- run by: FILE... -->       those tests run it; they must name the programs and scripts of the block
    <!-- not run: REASON -->       REASON begins with one of REASONS
    <!-- run with: A=B C=D -->     words that stand for what readers choose, and what is chosen here
    <!-- run without WORDS: REASON -->  the lines that contain WORDS are left out
    <!-- output -->                before the block behind it: what it prints, which is compared

What readers put their own things for is there:

    a path that ends in .gguf     the small ReLU model of tests/data, its PowerInfer file if the name says
                                  .powerinfer.gguf, or the default model if it has its name; but for names
                                  behind --out and the like, which the block makes
    .txt, .toml, .csv             a text in English, a machine's profile, counted activity
    /etc, /models, /var, /srv     folders of the block's own
    127.0.0.1:8080                a hearthd that serves the default model, or the one that the block starts
                                  itself
    ./server/run.sh               the hearthd that was built, with the default model
"""
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

import hearthd

ROOT = hearthd.ROOT
LANGUAGES = ("sh", "bash", "console", "python")
REASONS = ("needs a GPU", "needs the network",
           "needs a container engine", "needs root", "needs a terminal", "needs systemd",
           "needs a cluster")
# Blocks without a language that begin with one of these are commands that no test would run.
COMMANDS = re.compile(r"^(?:\$ |sudo |(?:\./|build/release/|[A-Z_]+=\S+ )*(?:hearthd|hearth-profiler|curl|"
                      r"docker|pip|cmake|apt|apt-get|git|python3?|server/run\.sh|tests/[\w/]+\.sh)\b)")
FENCE = re.compile(r"^( *)(```+|~~~+)\s*(.*)$")
COMMENT = re.compile(
    r"^ *<!-- (run after: .*|run with: .*|run without .*|run nightly|run by: .*|not run: .*|output) -->$")
# Commands that no test may run by accident, because they change the machine or take hours; such a block must
# have a mark.
NOT_WITHOUT_MARK = re.compile(
    r"(?:^|[|;&(]|\bthen|\bdo) *(?:[A-Z_]+=\S+ +)*(?:sudo|su|apt|apt-get|dpkg|systemctl|docker|podman|"
    r"buildah|kubectl|pip|(?:\./)?(?:docker/install-deps\.sh|tests/(?:run|nightly|soak|gpu)\.sh|"
    r"tests/(?:clients|kernels)/\w+\.sh|\.ci/run)|cmake --(?:build|preset)) ?", re.MULTILINE)
OUTPUTS = {"--out", "-o", "--to", "--toml", "--trace", "--plan-file", "--work", ">", ">>"}
WORD = re.compile(r"[\w./~${}-]+\.(?:gguf|txt|toml|csv)(?![\w.])")
OWN_FOLDERS = re.compile(r"(?<![\w./~-])/(?=(?:etc|models|var|srv|path)/)")
SERVING = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:(?:\./)?server/run\.sh|(?:[~\w./-]*/)?hearthd)(?= |$)")
NOT_SERVING = re.compile(r" --(?:check-config|help\S*|hash-key|version|healthcheck|build-only)\b|"
                         r"\bhearthd (?:pull|list|rm|show)\b")
SERVED = "127.0.0.1:8080"
TEXT = ROOT / "docs" / "glossary.md"


@dataclasses.dataclass
class Block:
    page: str
    line: int            # of the fence
    language: str
    text: str
    marks: list
    output: "Block | None" = None
    faults: list = dataclasses.field(default_factory=list)

    @property
    def name(self):
        return f"{self.page}:{self.line}"

    def mark(self, kind):
        """The text after a mark, or None if the block has no such mark."""
        for mark in self.marks:
            if mark == kind:
                return ""
            if mark.startswith(kind + ": "):
                return mark.removeprefix(kind + ": ").strip()
        return None

    @property
    def chosen_text(self):
        """The text with the replacements of "run with"."""
        text = self.text
        for choice in (self.mark("run with") or "").split():
            word, _, chosen = choice.partition("=")
            text = re.sub(rf"(?<![\w./-]){re.escape(word)}(?![\w./-])", chosen, text)
        return text

    @property
    def lines_to_run(self):
        left_out = [words for words, _ in self.left_out()]
        return "\n".join(line for line in self.chosen_text.splitlines()
                         if not any(words in line for words in left_out))

    def left_out(self):
        """(words, reason) for each kind of line that is not run."""
        return [tuple(part.strip() for part in mark.removeprefix("run without ").rpartition(": ")[::2])
                for mark in self.marks if mark.startswith("run without ")]

    @property
    def is_run(self):
        return self.mark("run by") is None and self.mark("not run") is None


def read_blocks(text, page):
    """All fenced blocks of a page, with the comments right before them."""
    blocks, marks, opened = [], [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened:
            indent, mark, block = opened
            if fence and fence.group(2) == mark and not fence.group(3):
                opened = None
            else:
                block.text += line.removeprefix(indent) + "\n"
        elif fence:
            blocks.append(Block(page, number, fence.group(3).split(" ")[0], "", marks))
            opened, marks = (fence.group(1), fence.group(2), blocks[-1]), []
        elif comment := COMMENT.match(line):
            marks.append(comment.group(1))
        elif line.strip():
            marks = []
    for before, block in zip(blocks, blocks[1:]):
        if "output" in block.marks:
            before.output = block
    return blocks


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def all_blocks():
    return [block for page in pages() for block in read_blocks(page.read_text(), str(page.relative_to(ROOT)))]


def programs_of(block):
    """The scripts of this tree and the programs that a block calls, in the form in which a test that runs it
    must name them."""
    words = set()
    for line in block.text.splitlines():
        for word in line.split("#")[0].split():
            path = word.removeprefix("./")
            if re.match(r"^(?:docker|server|tests|docs|\.ci)/[\w./-]+$", path) and (ROOT / path).is_file():
                words.add(path)
        first = re.sub(r"^(?:[A-Z_]+=\S+ +)*", "", line.removeprefix("$ ")).split(" ")[0]
        if first and not line.startswith((" ", "#")) and first.removeprefix("./") not in words:
            words.add(first.split("/")[-1])
    return words


def faults_of_marks(block):
    """The faults of a block's marks, as sentences."""
    if block.language not in LANGUAGES:
        if not block.language and COMMANDS.match(block.text):
            yield (
                f"{block.name}: begins with a command, and has no language, so nobody runs it. Write ```sh, "
                "```console if what it prints is there too, or ```text if it is only what a program prints.")
        if [mark for mark in block.marks if mark != "output"]:
            yield (f"{block.name}: has a mark of a block that is run, and its language is none of "
                   f"{', '.join(LANGUAGES)}.")
        return
    if (reason := block.mark("not run")) is not None and not reason.startswith(REASONS):
        yield (f"{block.name}: \"not run: {reason}\" is no reason that counts. Have it run, or begin with "
               f"one of: {', '.join(REASONS)}.")
    for words, reason in block.left_out():
        if not reason.startswith(REASONS):
            yield (f"{block.name}: \"run without {words}\" needs a reason that begins with one of: "
                   f"{', '.join(REASONS)}.")
        if words not in block.text:
            yield f"{block.name}: is run without \"{words}\", which it does not have."
    for choice in (block.mark("run with") or "").split():
        if choice.partition("=")[0] not in block.text:
            yield f"{block.name}: chooses for {choice.partition('=')[0]}, which it does not have."
    if block.is_run and (found := NOT_WITHOUT_MARK.search(block.lines_to_run)):
        yield (f"{block.name}: \"{found.group().strip()}\" would change this machine or take long. Say what "
               "runs it (<!-- run by: FILE -->), or why nothing does (<!-- not run: needs root -->).")
    if (tests := block.mark("run by")) is not None:
        texts = ""
        for test in tests.split():
            if not (ROOT / test).is_file():
                yield f"{block.name}: says it is run by {test}, which is not there."
            else:
                texts += test + (ROOT / test).read_text()
        for word in sorted(programs_of(block)):
            if word not in texts:
                yield f"{block.name}: says it is run by {tests}, which does not name {word}."


def commands_of_group(group):
    """The command lines of a group's processes; leaves out the shell that leads it if there are others."""
    lines = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(entry.name)) == group:
                lines[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(
                    errors="replace").strip()
        except OSError:  # it has ended meanwhile
            continue
    return [line for pid, line in sorted(lines.items()) if line and (pid != group or len(lines) == 1)]


def end_group(process):
    """Ends a process that leads a group of its own, and everything that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Sandbox:
    """A folder in which one block is run, with stand-ins for the reader's own files."""

    def __init__(self, folder, port=None):
        self.folder = folder
        self.port = port
        self.servers = []
        for name in ("server", "tests", "docker", "kernels", "engine", "profiler", "CMakePresets.json"):
            os.symlink(ROOT / name, folder / name)
        for name in ("config", "docs"):  # the documentation's commands write into these
            shutil.copytree(ROOT / name, folder / name,
                            ignore=shutil.ignore_patterns("figures/*.svg", "*.png"))
        (folder / "build").mkdir()
        os.symlink(hearthd.BUILD, folder / "build" / "release")
        (folder / "bin").mkdir()
        curl = folder / "bin" / "curl"  # a curl that fails if the server refuses
        curl.write_text(f"#!/bin/sh\nexec {shutil.which('curl')} --silent --show-error --fail-with-body "
                        "--max-time 100 \"$@\"\n")
        curl.chmod(0o755)
        (folder / "home").mkdir()
        self.environment = hearthd.clean_environment({
            "PATH": f"{folder}/bin:{hearthd.BUILD}:{os.environ['PATH']}", "HOME": str(folder / "home"),
            "XDG_CACHE_HOME": str(folder / "home" / ".cache"), "PYTHONPATH": ""})

    def own(self, text):
        """The text with the machine's folders replaced by folders of the sandbox, and with the port of the
        server."""
        text = OWN_FOLDERS.sub(str(self.folder) + "/", text)
        return text.replace(SERVED, f"127.0.0.1:{self.port}") if self.port else text

    def prepare(self, text):
        """Creates the files that a block reads and does not write itself."""
        for folder in re.findall(re.escape(str(self.folder)) + r"/[\w./-]*/", text):
            pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        made = set()
        for line in text.replace("\\\n", " ").splitlines():
            words = line.split("#")[0].replace(";", " ").split()
            for before, word in zip(["", *words], words):
                for path in WORD.findall(word.strip("'\"")):
                    if before in OUTPUTS:
                        made.add(path)
                    elif path not in made and "$" not in path and not path.startswith("~"):
                        self.make(self.folder / path)
        for line in text.replace("\\\n", " ").splitlines():
            for path in re.findall(r'"([^"]+\.gguf)"', line):
                self.make(self.folder / path)

    def make(self, path):
        if path.exists() or ROOT in path.parents:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        relu = ROOT / "tests" / "data" / "relu"
        if path.suffix == ".gguf":
            model = relu / ("relu-5m-q4_0.powerinfer.gguf" if path.name.endswith(".powerinfer.gguf")
                            else "relu-5m-q8_0.gguf")
            shutil.copy(hearthd.MODEL if path.name == hearthd.MODEL.name else model, path)
        elif path.suffix == ".txt":
            path.write_text(TEXT.read_text() * (3 if "book" in path.name else 1) + path.name)
        elif path.suffix == ".csv":
            shutil.copy(relu / "activity.csv", path)
        elif path.name == "hearth.toml":
            path.write_text(f'model = "{self.folder}/model.gguf"\n')
            self.make(self.folder / "model.gguf")
        else:
            shutil.copy(ROOT / "profiler" / "machine" / "machines" / "rtx4090.toml", path)

    def serve(self, line):
        """Starts a server as the line describes, on a free port, and waits until it serves."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        line = SERVING.sub(lambda m: m.group().replace("./server/run.sh", "server/run.sh").replace(
            "server/run.sh", f"hearthd --model {shlex.quote(str(hearthd.MODEL))}"), line)
        # The server writes to it.
        log = open(self.folder / f"server-{len(self.servers)}.log", "w+")  # noqa: SIM115
        server = subprocess.Popen(["bash", "-c", f"exec {line} --port {self.port}"], cwd=self.folder,
                                  env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  start_new_session=True)
        self.servers.append(server)
        deadline = time.monotonic() + hearthd.PATIENCE
        while time.monotonic() < deadline:
            if server.poll() is not None:
                log.seek(0)
                raise AssertionError(f"the server of this line has ended: {line}\n{log.read()}")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=10).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"waited {hearthd.PATIENCE} s in vain for the server of this line: {line}")

    def close(self):
        for server in self.servers:
            end_group(server)

    def run_program(self, arguments, timeout):
        """Runs a program to its end, in a session of its own; returns its exit code and its output of both
        kinds.

        Ends everything that it leaves running, both when it has ended and when the time limit is over. The
        latter is an AssertionError that names what was still running.
        """
        with (tempfile.TemporaryFile("w+", errors="replace") as out,
              tempfile.TemporaryFile("w+", errors="replace") as err):
            process = subprocess.Popen(arguments, cwd=self.folder,
                                       env=self.environment, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=err, start_new_session=True)
            running = None
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                running = commands_of_group(process.pid)
            finally:
                end_group(process)
            out.seek(0)
            err.seek(0)
            printed, errors = out.read(), err.read()
        assert running is None, (
            f"is not done after {timeout} s, and was ended. Still running:\n" + "\n".join(running)
            + f"\n--- it printed\n{printed[-3000:]}\n--- and on standard error\n{errors[-3000:]}")
        return process.returncode, printed, errors

    def run_console(self, text, timeout):
        """Runs the commands after "$ ". Returns how their output differs from what the page shows below them,
        or None."""
        for session in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = session.partition("\n")
            printed = self.run_shell(command, timeout)
            if shown.strip() and (why := same_text(shown, printed)):
                return f"{command}: {why}"
        return None

    def run_shell(self, text, timeout, left_out=()):
        """Runs all lines except those that contain a text to leave out; returns their output. Leaves servers
        running."""
        printed, lines = "", []

        def flush():
            nonlocal printed
            if lines:
                script = self.own("\n".join(lines))
                self.prepare(script)
                code, out, err = self.run_program(["bash", "-euo", "pipefail", "-c", script], timeout)
                assert code == 0, (f"ends with exit code {code}:\n{script}\n--- it printed\n{out[-3000:]}\n"
                                   f"--- and on standard error\n{err[-3000:]}")
                printed += out
                lines.clear()

        for line in text.split("\n"):
            continues = bool(lines) and lines[-1].endswith("\\")
            bare = line.split(" #")[0].rstrip()
            if (any(words in line for words in left_out)
                or re.match(r"^(?:[A-Z_]+=\S+ )*(?:\./)?server/run\.sh --build-only$", bare)):
                continue
            if (not continues and SERVING.match(bare) and not NOT_SERVING.search(bare)
                and not re.search(r"[|>;&]", bare)):
                flush()
                line = self.own(bare)
                self.prepare(line)
                self.serve(line)
            else:
                lines.append(line)
        flush()
        return printed


VOLATILE = {"id", "created", "created_at", "completed_at", "system_fingerprint", "version", "cached_tokens"}


def same_value(shown, printed, where="the answer"):
    """Returns how a printed JSON value differs from what the page shows, or None. The page may leave out
    members and write "…"."""
    if shown == "…":
        return None
    if isinstance(shown, dict) and isinstance(printed, dict):
        for key, value in shown.items():
            if key not in printed:
                return f"{where} has no member {key}"
            if key not in VOLATILE and (why := same_value(value, printed[key], f"{where}.{key}")):
                return why
        return None
    if isinstance(shown, list) and isinstance(printed, list):
        if "…" not in shown and len(shown) != len(printed):
            return f"{where} has {len(printed)} elements, the page shows {len(shown)}"
        for index, value in enumerate(shown):
            if value == "…":
                break
            if why := same_value(value, printed[index], f"{where}[{index}]"):
                return why
        return None
    if isinstance(shown, float) and isinstance(printed, (int, float)):
        return (None if abs(shown - printed) <= 1e-4 + 1e-4 * abs(shown)
                else f"{where} is {printed}, the page shows {shown}")
    return None if shown == printed else f"{where} is {printed!r}, the page shows {shown!r}"


def same_text(shown, printed):
    """Does the same for text: repeated spaces count as one, "…" matches anything, decimal numbers may differ
    in the sixth digit."""
    def words(text):
        return [line.split() for line in text.strip().splitlines() if line.strip()]
    if len(words(shown)) != len(words(printed)) and "…" not in shown:
        return f"{len(words(printed))} lines were printed, the page shows {len(words(shown))}"
    for number, (a, b) in enumerate(zip(words(shown), words(printed)), 1):
        for left, right in zip(a, b):
            if left == "…":
                break
            try:
                close = "." in left and abs(float(left) - float(right)) <= 1e-5 * abs(float(left))
            except ValueError:
                close = False
            if (left != right and not close
                and not re.fullmatch(".*".join(map(re.escape, left.split("…"))), right)):
                return f'line {number} has "{right}", the page shows "{left}"'
        if len(a) != len(b) and "…" not in a:
            return f"line {number} has {len(b)} words, the page shows {len(a)}"
    return None


def difference(block, printed):
    """Returns how a block's output differs from what the page shows after it; None if it does not, or if
    nothing is shown."""
    if block.output is None:
        return None
    if block.output.language == "json":
        return same_value(json.loads(re.sub(r"(?<=[\[, ])…", '"…"', block.output.text)), json.loads(printed))
    return same_text(block.output.text, printed)
