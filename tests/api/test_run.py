"""hearthd run: a chat in the terminal, with a server of its own or with a running one."""
import http.server
import json
import os
import pathlib
import signal
import subprocess
import threading

import httpx
import pytest

import hearthd
import small_model
from chat_terminal import Terminal


def run(*arguments, text=None):
    """One message. The standard input is no terminal."""
    return subprocess.run([hearthd.BINARY, "run", *map(str, arguments)], input=text, text=True,
                          capture_output=True, env=hearthd.clean_environment(), timeout=hearthd.PATIENCE)


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def terminal():
    opened = []

    def start(*arguments):
        opened.append(Terminal(*arguments))
        return opened[-1]
    yield start
    for one in opened:
        try:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(one.fd)


def test_one_message_with_a_server_of_its_own():
    first = run(small_model.path(), "Hello", "--context", "128", "--threads", "2")
    assert first.returncode == 0 and first.stdout.strip(), first
    # Nothing else is said. The model seldom ends an answer by itself.
    assert first.stderr in ("", "hearthd: the answer ended because the context is full\n"), first
    piped = run(small_model.path(), "-c", "128", "-t", "2", text="Hello")
    assert piped.returncode == 0 and piped.stdout.strip()


def test_a_running_server_is_used(start):
    server = start("--context", "128", model=small_model.path())
    answered = run("--port", server.port, text="Hello")
    assert answered.returncode == 0 and answered.stdout.strip()
    assert run("--url", server.url + "/v1", "--system", "Be brief.", text="Hello").returncode == 0
    metrics = httpx.get(server.url + "/metrics", timeout=hearthd.PATIENCE).text
    assert hearthd.total(hearthd.samples(metrics), "hearth_finished_sequences_total") == 2


def test_a_conversation_on_a_terminal(terminal):
    chat = terminal(small_model.path())
    chat.wait_for("/help shows commands.")
    chat.wait_for(">>> ")
    (server,) = children(chat.pid)
    chat.type("/help\n")
    assert "/clear" in chat.wait_for("stop the answer")
    chat.wait_for(">>> ")
    chat.type('"""one\n')
    chat.wait_for("... ")
    chat.type('two"""\n')
    chat.wait_for(">>> ")
    chat.type("/nothing\n")
    chat.wait_for("/nothing is not a command")
    chat.wait_for(">>> ")
    chat.type("half a line\x03")  # Ctrl-C
    chat.wait_for("Ctrl-D or /bye ends the chat.")
    chat.wait_for(">>> ")
    chat.type("\x04")  # Ctrl-D
    assert chat.wait() == 0
    assert not pathlib.Path(f"/proc/{server}").exists()


class EndlessServer(http.server.BaseHTTPRequestHandler):
    """Begins an answer, sends a control sequence, and then nothing more until the client leaves."""
    requests = []

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "endless", "generates": true, "max_model_len": 64}]}')

    def do_POST(self):
        self.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()
        delta = {"choices": [{"delta": {"content": "begun\x1b[2J"}}]}
        self.wfile.write(b"data: " + json.dumps(delta).encode() + b"\n\n")
        self.connection.settimeout(hearthd.PATIENCE)
        assert self.connection.recv(1) == b""

    def log_message(self, *arguments):
        pass


def test_ctrl_c_stops_an_answer_and_the_chat_goes_on(terminal):
    EndlessServer.requests.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), EndlessServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        chat = terminal("--port", server.server_port, "--system", "Be brief.")
        chat.wait_for(">>> ")
        for turn in range(2):
            chat.type(f"Hello {turn}\n")
            assert "\x1b" not in chat.wait_for("begun[2J")
            chat.type("\x03")
            chat.wait_for(">>> ")
        chat.type("/bye\n")
        assert chat.wait() == 0
    finally:
        server.shutdown()
        server.server_close()
    # The printed part stays in the conversation.
    assert EndlessServer.requests[1]["messages"] == [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello 0"},
        {"role": "assistant", "content": "begun[2J"}, {"role": "user", "content": "Hello 1"}]


def test_the_server_of_a_killed_chat_ends(terminal):
    chat = terminal(small_model.path())
    chat.wait_for(">>> ")
    (server,) = children(chat.pid)
    os.kill(chat.pid, signal.SIGKILL)
    hearthd.wait_until(lambda: not pathlib.Path(f"/proc/{server}").exists() or
                       "\nState:\tZ" in pathlib.Path(f"/proc/{server}/status").read_text(),
                       "the server to end")


def test_what_cannot_work_is_one_sentence(tmp_path):
    with open(tmp_path / "text.gguf", "w") as text:
        text.write("no model")
    for arguments, said in (
            (["/no/such.gguf", "Hello"], "there is no such file"),
            ([tmp_path / "text.gguf", "x"], "a text file"),
            (["gemma", "x"], "did you mean gemma-3-4b"), ([tmp_path, "x"], "is a folder"),
            (["--url", "http://127.0.0.1:9", "--system", "x"], "no server answers"),
            ([small_model.path(), "x", "--url", "http://127.0.0.1:9"], "--url names a running server"),
            ([small_model.path(), "x", "--context", "many"], "--context 'many'"),
            ([small_model.path(), "long " * 4000, "--context", "64"], "tokens")):
        refused = run(*arguments, text="")
        assert refused.returncode != 0 and said in refused.stderr, (arguments, refused)
        assert refused.stderr.count("\n") == 1 and refused.stdout == "", refused
