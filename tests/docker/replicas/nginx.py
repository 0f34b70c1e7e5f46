"""Runs Debian's nginx with the files of docker/replicas in a folder of its own, and stand-ins for replicas
that say which one answered."""
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import threading

import pytest

import hearthd

FILES = hearthd.ROOT / "docker" / "replicas"


def program():
    """nginx's path; most users do not have /usr/sbin in PATH."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip("nginx is not installed: docker/install-deps.sh image installs it")
    return found


class Nginx:
    """nginx in front of replicas on loopback. replicas: their ports; slots: max_conns."""

    def __init__(self, folder, replicas, slots=16, show_conversation=False, workers=2,
                 change=lambda text: text):
        self.folder = pathlib.Path(folder)
        self.change, self.workers = change, workers
        self.folder.mkdir(parents=True, exist_ok=True)
        self.write(replicas, slots, show_conversation)
        self.port = free_port()
        self.write(replicas, slots, show_conversation)
        self.log = open(self.folder / "error.log", "w")
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=self.log)
        hearthd.wait_until(self._answers, "nginx to listen")

    def command(self):
        return [program(), "-p", str(self.folder), "-c", str(self.folder / "nginx.conf"), "-g", "daemon off;"]

    def write(self, replicas, slots=16, show_conversation=False):
        """The project's files, with the test's replicas, port and folder; everything else stays."""
        text = (FILES / "nginx.conf").read_text()
        text = text.replace("/tmp/", f"{self.folder}/").replace("/dev/stdout", f"{self.folder}/access.log")
        (self.folder / "nginx.conf").write_text(
            text.replace("worker_processes 4", f"worker_processes {self.workers}"))
        text = (FILES / "hearth.conf").read_text()
        assert text.count("listen 8080;") == 1
        if hasattr(self, "port"):
            text = text.replace("listen 8080;", f"listen 127.0.0.1:{self.port};")
        (self.folder / "hearth.conf").write_text(self.change(text))
        text = (FILES / "replicas.conf").read_text()
        for line in re.findall(r"    server .*\n", text):
            text = text.replace(line, line.replace("    server", "    SERVER") if "8081" in line else "")
        text = re.sub(r"    SERVER 127.0.0.1:8081(.*)\n",
                      lambda found: "".join(f"    server 127.0.0.1:{port}{found.group(1)}\n"
                                            for port in replicas), text)
        text = re.sub(r"max_conns=\d+", f"max_conns={slots}", text)
        if show_conversation:
            text += 'add_header X-Conversation "<$conversation>" always;\n'
        (self.folder / "replicas.conf").write_text(text)

    def reload(self):
        """Reloads like after an edit: new worker processes take the new files, old ones finish their
        requests."""
        subprocess.run([*self.command()[:-2], "-s", "reload"], check=True, capture_output=True,
                       timeout=hearthd.PATIENCE)

    def _answers(self):
        import httpx
        assert self.process.poll() is None, (self.folder / "error.log").read_text()
        try:
            return httpx.get(self.url + "/nginx-alive", timeout=30).status_code == 200
        except httpx.TransportError:
            return False

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def errors(self):
        return (self.folder / "error.log").read_text()

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=hearthd.PATIENCE)
        self.log.close()


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class StandIn:
    """Answers every request with its own port, or with what `answer(handler, body)` returns."""

    def __init__(self, answer=None):
        stand_in = self
        self.answer, self.requests = answer, []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                stand_in.requests.append((self.path, dict(self.headers), body))
                (stand_in.answer or say_port)(self, body)

            do_GET = do_POST

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def say(handler, status, fields):
    body = json.dumps(fields).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def say_port(handler, body):
    say(handler, 200, {"port": handler.server.server_address[1]})
