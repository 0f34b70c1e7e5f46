"""A hub on loopback for tests of pulling: the API of a repository, files behind redirects to a second
address, and faults on
request.

It records every request. No test that uses it touches a network.
"""
import hashlib
import http.server
import json
import select
import socket
import threading
import time
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, hub, role, port=0, tls=None):
        self.hub, self.role = hub, role
        super().__init__(("127.0.0.1", port), Handler)
        if tls:  # an ssl.SSLContext
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # clients that are killed, and cuts that a test asked for

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Hub:
    """`files`: path -> bytes, for the repository lab/model. `fault(request)` may answer a request for a file
    instead; it then returns true. `redirects`: files are on a second server, as at Hugging Face."""

    def __init__(self, files, redirects=True, ranges=True, fault=None, architecture=None, api_fault=None):
        self.files, self.redirects, self.ranges = dict(files), redirects, ranges
        self.fault, self.api_fault, self.architecture = fault, api_fault, architecture
        self.sha256 = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
        self.sizes = {path: len(data) for path, data in files.items()}
        self.etags = {}
        self.commit = COMMIT
        self.hold_at = None  # after this many bytes of a file sending pauses until this changes; None: never
        self.n_sending = 0  # files being sent now
        self.requests = []  # (role, method, path, headers)
        self.lock = threading.Lock()
        self.sent = 0  # bytes of files
        self.front, self.store = Server(self, "hub"), Server(self, "store")

    @property
    def url(self):
        return self.front.url

    def close(self):
        for server in (self.front, self.store):
            server.shutdown()
            server.server_close()

    def describe(self):
        siblings = [{"rfilename": path, "size": self.sizes[path],
                     "lfs": {"sha256": self.sha256[path], "size": self.sizes[path]}}
                    for path in self.files]
        body = {"id": "lab/model", "sha": self.commit,
                "siblings": [{"rfilename": "README.md", "size": 5}, *siblings]}
        if self.architecture:
            body["gguf"] = {"architecture": self.architecture}
        return body

    def of(self, role):
        return [request for request in self.requests if request[0] == role]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    @property
    def hub(self):
        return self.server.hub

    def do_HEAD(self):
        self.note()
        self.answer(405, b"")

    def do_GET(self):
        self.note()
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        if self.server.role == "hub" and path.startswith("/api/models/lab/model"):
            if self.hub.api_fault and self.hub.api_fault(self):
                return
            self.answer(200, json.dumps(self.hub.describe()).encode())
        elif (self.server.role == "hub" and path.startswith(f"/lab/model/resolve/{self.hub.commit}/")
              and self.hub.redirects):
            file = path.split("/", 5)[5]
            self.answer(302, b"",
                        {"Location": f"{self.hub.store.url}/blob/{urllib.parse.quote(file)}?signature=x",
                         "X-Linked-Etag": f'"{self.hub.sha256.get(file, "")}"'})
        else:
            self.send_file(path.split("/", 5)[5] if self.server.role == "hub" and "/resolve/" in path
                           else path.split("/", 2)[-1])

    def note(self):
        with self.hub.lock:
            self.hub.requests.append((self.server.role, self.command, self.path, dict(self.headers)))

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def range(self, size):
        asked = self.headers.get("Range")
        if not asked or not self.hub.ranges:
            return None
        first, last = asked.removeprefix("bytes=").split("-")
        return int(first), min(int(last) + 1, size) if last else size

    def send_file(self, path):
        data = self.hub.files.get(path)
        if data is None:
            return self.answer(404, b"no such file")
        begin, end = self.range(len(data)) or (0, len(data))
        self.data, self.begin, self.end, self.file = data, begin, end, path
        if self.hub.fault and self.hub.fault(self):
            return
        self.send_part(begin, end)

    def send_part(self, begin, end, cut_at=None, **changed):
        """Sends the requested bytes. cut_at: where the connection ends. changed: headers to replace; None
        leaves one out."""
        ranged = self.range(len(self.data)) is not None
        heads = {"Content-Length": end - begin, "ETag": self.hub.etags.get(self.file, '"v1"')}
        if ranged:
            heads["Content-Range"] = f"bytes {begin}-{end - 1}/{len(self.data)}"
        heads.update({name.replace("_", "-"): value for name, value in changed.items()})
        self.send_response(heads.pop("status", 206 if ranged else 200))
        for name, value in heads.items():
            if value is not None:
                self.send_header(name, str(value))
        if heads.get("Content-Length", 0) is None:
            self.close_connection = True
        self.end_headers()
        with self.hub.lock:
            self.hub.n_sending += 1
        try:
            stop = end if cut_at is None else min(cut_at, end)
            for at in range(begin, stop, 65536):
                while (self.hub.hold_at is not None and self.hub.sent >= self.hub.hold_at
                       and not self.client_left()):
                    time.sleep(0.005)
                if self.client_left():
                    break
                part = self.data[at:min(at + 65536, stop)]
                self.wfile.write(part)
                with self.hub.lock:
                    self.hub.sent += len(part)
            if stop < end or self.client_left():
                self.cut()
        finally:
            with self.hub.lock:
                self.hub.n_sending -= 1

    def client_left(self):
        if not select.select([self.connection], [], [], 0)[0]:
            return False
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except ValueError:  # TLS cannot peek
            return False
        except OSError:
            return True

    def cut(self):
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(2)
