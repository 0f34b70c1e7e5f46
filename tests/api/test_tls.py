"""HTTPS: hearthd's options for a certificate, changing it while serving, and clients that verify it.

The certificates are made by the program openssl, which ca-certificates brings."""
import json
import signal
import socket
import ssl
import subprocess
import tomllib

import httpx
import pytest

import hearthd

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]


class Authority:
    """A certificate authority of the test's own, with one intermediate authority."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.issue("root", "-addext", "basicConstraints=critical,CA:true", issuer=None)
        self.issue("between", "-addext", "basicConstraints=critical,CA:true", issuer="root")

    def issue(self, name, *options, issuer="between", protected=False):
        """Makes NAME.pem and NAME.key."""
        by = ["-CA", self.folder / f"{issuer}.pem", "-CAkey", self.folder / f"{issuer}.key"] if issuer else []
        secrecy = ["-passout", "pass:secret"] if protected else ["-nodes"]
        subprocess.run(["openssl", "req", "-x509", *CURVE, *secrecy, "-days", "2", "-subj", f"/CN={name}",
                        *by, *options, "-keyout", self.folder / f"{name}.key",
                        "-out", self.folder / f"{name}.pem"],
                       check=True, capture_output=True, timeout=hearthd.PATIENCE)

    def server_pair(self, name, protected=False):
        """Makes a pair for 127.0.0.1, whose file has the intermediate certificate too. Returns the paths."""
        self.issue(name, "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", protected=protected)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_text(certificate.read_text() + (self.folder / "between.pem").read_text())
        key.chmod(0o600)
        return certificate, key

    def context(self):
        """Trusts only the root."""
        return ssl.create_default_context(cafile=self.folder / "root.pem")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def shared(authority):
    certificate, key = authority.server_pair("shared")
    server = hearthd.Hearthd("--tls-cert", certificate, "--tls-key", key, model=hearthd.SMALL_MODEL,
                             verify=authority.context())
    yield server
    server.kill()


def name_of_server(server):
    """The common name in the certificate of a new connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=hearthd.PATIENCE) as connection:
        with server.verify.wrap_socket(connection, server_hostname="127.0.0.1") as session:
            return dict(pair[0] for pair in session.getpeercert()["subject"])["commonName"]


def reload(server):
    before = sum("SIGHUP: reloaded" in line for line in server.lines)
    server.signal(signal.SIGHUP)
    hearthd.wait_until(lambda: sum("SIGHUP: reloaded" in line for line in server.lines) > before,
                       "the reload")


def test_the_log_names_the_certificate_and_an_https_address(shared):
    assert f"listening on https://127.0.0.1:{shared.port}" in shared.log()
    assert "TLS: the certificate is for 127.0.0.1, localhost, valid until 2" in shared.log()
    assert "may read" not in shared.log()


def test_streams_and_whole_answers_are_those_of_http(shared, small):
    plain = small()
    body = {"prompt": "a b c", "max_tokens": 24, "temperature": 0}
    whole, streamed = [], []
    for server in (shared, plain):
        with httpx.Client(base_url=server.url, verify=server.verify, timeout=hearthd.PATIENCE) as client:
            whole.append(client.post("/v1/completions", json=body).json()["choices"][0]["text"])
            with client.stream("POST", "/v1/completions", json={**body, "stream": True}) as answer:
                events = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
            assert events[-1] == "[DONE]"
            streamed.append("".join(json.loads(event)["choices"][0]["text"] for event in events[:-1]))
    assert whole[0] == whole[1] == streamed[0] == streamed[1] != ""


def test_one_connection_carries_large_bodies_both_ways(shared):
    with httpx.Client(base_url=shared.url, verify=shared.verify, timeout=hearthd.PATIENCE) as client:
        for _ in range(2):
            text = "word " * 250_000
            answer = client.post("/tokenize", json={"content": text, "with_pieces": True})
            assert answer.status_code == 200 and len(answer.content) > 1 << 20
            assert client.get("/v1/models").status_code == 200


def test_clients_that_do_not_trust_the_certificate_or_speak_no_tls_get_no_answer(shared):
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(shared.url + "/health", timeout=hearthd.PATIENCE)
    answer = httpx.get(f"http://127.0.0.1:{shared.port}/health", timeout=hearthd.PATIENCE)
    assert answer.status_code == 400 and "Begin the address with https://" in answer.text
    assert shared.ask(b"\x16\x03\x01\x00\x05hello").find("HTTP") == -1
    assert shared.health()[0] == 200


def test_a_client_that_leaves_a_stream_ends_its_request(shared):
    request = {"prompt": "a", "max_tokens": 400, "temperature": 0, "stream": True, "ignore_eos": True}
    with httpx.Client(base_url=shared.url, verify=shared.verify, timeout=hearthd.PATIENCE) as client:
        with client.stream("POST", "/v1/completions", json=request) as answer:
            next(answer.iter_lines())
    hearthd.wait_until(lambda: shared.n_running() == 0, "the request to end")


def test_hangup_reads_the_pair_again(authority, tmp_path):
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"

    def take(source, target):
        fresh = tmp_path / "fresh"  # replaced by another file of the same name, as renewing programs do
        fresh.write_bytes(source.read_bytes())
        fresh.rename(target)

    first, second = authority.server_pair("first"), authority.server_pair("second")
    take(first[0], certificate)
    take(first[1], key)
    server = hearthd.Hearthd("--tls-cert", certificate, "--tls-key", key, model=hearthd.SMALL_MODEL,
                             verify=authority.context())
    try:
        with httpx.Client(base_url=server.url, verify=server.verify, timeout=hearthd.PATIENCE) as running:
            assert running.get("/v1/models").status_code == 200
            assert name_of_server(server) == "first"
            take(second[0], certificate)
            reload(server)
            assert "server.key does not belong to the first certificate" in server.log()
            assert "the previous certificate stays in effect" in server.log()
            assert name_of_server(server) == "first"
            take(second[1], key)
            reload(server)
            assert name_of_server(server) == "second"
            certificate.unlink()
            reload(server)
            assert "server.pem cannot be read: No such file" in server.log()
            assert name_of_server(server) == "second"
            assert running.get("/v1/models").status_code == 200
        assert "read again: 127.0.0.1, localhost, valid until 2" in server.log()
        server.signal()
        assert server.wait() == 0
    finally:
        server.kill()


def test_the_healthcheck_and_the_port_for_metrics_use_tls_too(authority, free_port):
    certificate, key = authority.server_pair("metrics")
    options = ["--tls-cert", certificate, "--tls-key", key]
    server = hearthd.Hearthd(*options, "--metrics-port", free_port, model=hearthd.SMALL_MODEL,
                             verify=authority.context())
    try:
        metrics = httpx.get(f"https://127.0.0.1:{free_port}/metrics", verify=server.verify,
                            timeout=hearthd.PATIENCE)
        assert metrics.status_code == 200 and "hearth_" in metrics.text
        assert f"metrics on https://127.0.0.1:{free_port}/metrics" in server.log()
        healthy = hearthd.run(["--healthcheck", "--port", server.port, *options])
        assert healthy.returncode == 0 and '"status": "ok"' in healthy.stdout.replace('":"', '": "')
        plain = hearthd.run(["--healthcheck", "--port", server.port])
        assert plain.returncode == 1
    finally:
        server.kill()


def test_connect_asks_a_server_with_tls(shared, authority):
    env = {"HEARTH_TLS_CERT": str(authority.folder / "shared.pem"),
           "HEARTH_TLS_KEY": str(authority.folder / "shared.key")}
    told = hearthd.run(["connect", "codex", "--port", shared.port], env=env)
    provider = tomllib.loads(told.stdout)["model_providers"]["hearth"]
    assert provider["base_url"] == f"https://127.0.0.1:{shared.port}/v1"


@pytest.fixture()
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_start_refuses_a_pair_that_cannot_work(authority):
    certificate, key = authority.server_pair("good")
    _, other = authority.server_pair("other")
    protected = authority.server_pair("protected", protected=True)
    for options, sentence in [
        (["--tls-cert", certificate], "tls-cert and tls-key belong together"),
        (["--tls-key", key], "tls-cert and tls-key belong together"),
        (["--tls-cert", certificate, "--tls-key", other], "does not belong to the first certificate"),
        (["--tls-cert", *protected[:1], "--tls-key", protected[1]], "hearthd asks for no passphrase"),
        (["--tls-cert", key, "--tls-key", key], "has no usable certificate"),
        (["--tls-cert", "/nowhere.pem", "--tls-key", key], "/nowhere.pem cannot be read: No such file"),
    ]:
        for action in ([], ["--check-config"]):
            refused = hearthd.run([*action, "--port", "0", "--model", hearthd.SMALL_MODEL, *options])
            assert refused.returncode == 2 and sentence in refused.stderr, refused.stderr


def test_check_config_describes_the_certificate(authority):
    certificate, key = authority.server_pair("checked")
    options = ["--check-config", "--model", hearthd.SMALL_MODEL, "--tls-cert", certificate, "--tls-key", key]
    checked = hearthd.run(options)
    assert checked.returncode == 0 and "address: https://127.0.0.1:8080" in checked.stdout
    assert "TLS: 127.0.0.1, localhost, valid until 2" in checked.stdout and "warning" not in checked.stdout
    key.chmod(0o644)
    assert f"warning: every user of this machine may read {key}" in hearthd.run(options).stdout
