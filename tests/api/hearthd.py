"""Starts hearthd for a test and sends it requests: on any free port of 127.0.0.1, with a clean environment
and limits on time.

The program comes from $HEARTH_BUILD_DIR (default build/release), the model from $HEARTH_TEST_MODEL (default:
the one that server/run.sh fetches).
"""
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

# Servers that inherit an ignored SIGHUP, as under nohup, keep ignoring it; these tests send it.
if (threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("HEARTH_BUILD_DIR", ROOT / "build" / "release"))
BINARY = BUILD / "hearthd"
EMULATED = BUILD / "tests" / "hearthd_emulated"  # on emulated CUDA; built if NVIDIA's headers are there
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
MODEL = pathlib.Path(
    os.environ.get("HEARTH_TEST_MODEL", CACHE / "hearth" / "SmolLM2-135M-Instruct.Q4_1.gguf"))
# Committed: no chat template, 512 tokens of context, 2,048 in the vocabulary.
SMALL_MODEL = ROOT / "tests" / "data" / "relu" / "relu-5m-q8_0.gguf"
NO_CACHE = tempfile.TemporaryDirectory(prefix="hearth-no-cache-")
PATIENCE = 120  # seconds until a wait is given up; far above what anything takes, for slow shared machines
# A sample of /metrics: its name, labels and value.
SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')


def clean_environment(extra=None):
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("HEARTH_", "CUDAEMU_")) and k != "NOTIFY_SOCKET"}
    # Nothing else runs beside the test, and it finds no measurements of other runs.
    environment.update({"HEARTH_PROFILE": "off", "XDG_CACHE_HOME": NO_CACHE.name})
    environment.update(extra or {})
    return environment


def run(arguments, env=None, binary=BINARY):
    """Runs hearthd to its end, for starts that must fail and for --help and the like."""
    return subprocess.run([binary, *map(str, arguments)], env=clean_environment(env), capture_output=True,
                          text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)


def wait_until(condition, what, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {patience} s in vain for: {what}")


class Hearthd:
    """A running server. `lines` holds its standard error, which is its log unless that goes to a log_file.

    verify: the SSLContext for a server with a certificate of the test's own. model: None for no --model."""

    def __init__(self, *arguments, model=MODEL, env=None, wait=True, binary=BINARY, log_file=None,
                 verify=True):
        self.log_file, self.verify, self.scheme = log_file, verify, "http"
        models = ["--model", str(model)] if model else []
        command = [binary, "--port", "0", *models, *map(str, arguments)]
        self.process = subprocess.Popen(command, env=clean_environment(env), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        errors="replace")
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.port = int(wait_until(self._find_port, "the line that says where it listens"))
            if wait:
                wait_until(self.is_ready, "the model to be loaded")
                # Everything that is logged about the load comes before this line. The thread that reads the
                # log may lag behind /health.
                wait_until(lambda: any("load_ms" in line for line in self.lines),
                           "the line that ends the load")
        except BaseException:
            self.kill()
            raise

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def _find_port(self):
        logged = self.log_file.read_text().splitlines() if self.log_file and self.log_file.exists() else []
        for line in [*self.lines, *logged]:
            if found := re.search(r"listening on (https?)://[^ ]*:(\d+)", line):
                self.scheme = found.group(1)
                return found.group(2)
        if self.process.poll() is not None:
            raise AssertionError("hearthd ended: " + "\n".join(self.lines))
        return None

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def log(self):
        return "\n".join(self.lines)

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        return connection

    def ask(self, data):
        """Sends bytes on a fresh connection; returns everything received until the server closes it."""
        with self.connect() as connection:
            connection.sendall(data if isinstance(data, bytes) else data.encode())
            return read_all(connection)

    def health(self):
        import httpx
        answer = httpx.get(self.url + "/health", timeout=PATIENCE, verify=self.verify)
        return answer.status_code, answer.json()

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError("hearthd ended: " + self.log())
        return self.health()[0] == 200

    def n_running(self):
        return self.health()[1]["slots"]["running"]

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self):
        code = self.process.wait(timeout=PATIENCE)
        self._reader.join(timeout=PATIENCE)
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=PATIENCE)


def read_all(connection):
    parts = []
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            parts.append(b"<reset>")
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def read_until(connection, mark):
    got = b""
    while mark not in got:
        part = connection.recv(65536)
        if not part:
            raise AssertionError(f"closed before {mark!r}: {got!r}")
        got += part
    return got


def post(path, body, headers=""):
    """The bytes of a POST with `Connection: close`."""
    data = body.encode()
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\n{headers}Content-Length: {len(data)}\r\n\r\n").encode() + data


def samples(text):
    """The samples of /metrics: {(name, labels): value}"""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, labels, value = SAMPLE.match(line).groups()
            found[name, labels or ""] = float(value)
    return found


def total(found, name, **labels):
    return sum(value for (sample, text), value in found.items()
               if sample == name and all(f'{k}="{v}"' in text for k, v in labels.items()))
