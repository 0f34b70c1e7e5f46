"""/metrics: its contents, who may read it, that documents and the dashboard list it, and that Prometheus
itself can read it."""
import json
import re
import shutil
import socket
import subprocess

import httpx
import pytest

import hearthd
import small_model
from hearthd import samples, total

FAMILY = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def port():
    return free_port()


@pytest.fixture(scope="module")
def server(port):
    server = hearthd.Hearthd("--metrics-port", port, "--slots", 2,
                             "--device", "cpu", model=small_model.path(),
                             env={"HEARTH_API_KEY": "role=use,metrics key=open-sesame"})
    yield server
    server.kill()


def ask(server, path, body, key="open-sesame"):
    return httpx.post(server.url + path, json=body, timeout=hearthd.PATIENCE,
                      headers={"Authorization": f"Bearer {key}"})


def scrape(port):
    answer = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=hearthd.PATIENCE)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return answer.text


def test_requests_and_tokens_are_counted(server, port):
    before = samples(scrape(port))
    for _ in range(3):
        answer = ask(server, "/v1/completions",
                     {"prompt": "The quick brown fox jumps over the lazy dog", "max_tokens": 5,
                      "temperature": 0, "logit_bias": {"0": -100, "2": -100}})
        assert answer.status_code == 200, answer.text
    assert ask(server, "/v1/completions", {"prompt": 7.5}).status_code == 400
    assert ask(server, "/v1/completions", {"prompt": "x"}, key="wrong").status_code == 401
    n_prompt = answer.json()["usage"]["prompt_tokens"]

    def counted():  # a step's figures are published when the step ends, which may be after its answer
        now = samples(scrape(port))
        done = {key: now[key] - before.get(key, 0) for key in now}
        return done if total(done, "hearth_finished_sequences_total") == 3 and total(
            done, "hearth_http_requests_total", endpoint="/completions") == 5 else None
    done = hearthd.wait_until(counted, "three sequences in the figures")
    assert total(done, "hearth_http_requests_total", endpoint="/completions", code="200") == 3
    assert total(done, "hearth_refused_requests_total", reason="invalid") == 1
    assert total(done, "hearth_refused_requests_total", reason="key") == 1
    assert total(done, "hearth_prompt_tokens_total") == 3 * n_prompt
    assert total(done, "hearth_generated_tokens_total") == 15
    assert total(done, "hearth_finished_sequences_total", reason="length") == 3
    assert total(done, "gen_ai_server_request_duration_seconds_count",
                 gen_ai_operation_name="text_completion") == 5
    assert total(done, "gen_ai_server_time_to_first_token_seconds_count") == 3
    assert total(done, "gen_ai_server_time_per_output_token_seconds_count") == 3
    assert total(done, "hearth_queue_seconds_count") == 3
    assert total(done, "hearth_neurons_total") > total(done, "hearth_active_neurons_total") > 0
    now = samples(scrape(port))
    assert total(now, "hearth_up") == 1
    assert total(now, "hearth_slots") == 2
    assert total(now, "hearth_memory_bytes", place="ram", purpose="kv") > 0
    assert total(now, "process_resident_memory_bytes") > 5e6


def test_histograms_are_cumulative(port, server):
    buckets = {}
    for (name, labels), value in samples(scrape(port)).items():
        if name.endswith("_bucket"):
            buckets.setdefault((name, re.sub(r',?le="[^"]*"', "", labels)), []).append(value)
    assert buckets
    for key, values in buckets.items():
        assert values == sorted(values), key


def test_a_client_that_leaves_is_counted(server, port):
    before = samples(scrape(port))
    with httpx.stream("POST", server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                      headers={"Authorization": "Bearer open-sesame"},
                      json={"prompt": "The", "max_tokens": 450, "stream": True,
                            "logit_bias": {"0": -100, "2": -100}}) as answer:
        next(answer.iter_lines())
    hearthd.wait_until(lambda: total(samples(scrape(port)), "hearth_cancelled_requests_total")
                               > total(before, "hearth_cancelled_requests_total"),
                       "the request to be counted as cancelled")


def test_metrics_need_a_key_on_the_main_port(server, port):
    assert httpx.get(server.url + "/metrics", timeout=hearthd.PATIENCE).status_code == 401
    own = httpx.get(server.url + "/metrics", headers={"Authorization": "Bearer open-sesame"},
                    timeout=hearthd.PATIENCE)
    assert own.status_code == 200 and "hearth_up 1" in own.text
    assert httpx.head(f"http://127.0.0.1:{port}/metrics", timeout=hearthd.PATIENCE).text == ""
    assert httpx.get(f"http://127.0.0.1:{port}/health", timeout=hearthd.PATIENCE).json()["status"] == "ok"
    assert httpx.get(f"http://127.0.0.1:{port}/v1/models", timeout=hearthd.PATIENCE).status_code == 404
    assert httpx.post(f"http://127.0.0.1:{port}/metrics", timeout=hearthd.PATIENCE).status_code == 405
    assert httpx.post(server.url + "/metrics", headers={"Authorization": "Bearer open-sesame"},
                      timeout=hearthd.PATIENCE).status_code == 405


def test_metrics_are_answered_while_the_engine_is_busy(server, port):
    with httpx.stream("POST", server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                      headers={"Authorization": "Bearer open-sesame"},
                      json={"prompt": "The", "max_tokens": 400, "stream": True,
                            "logit_bias": {"0": -100, "2": -100}}) as answer:
        for _, line in zip(range(3), answer.iter_lines()):
            assert total(samples(scrape(port)), "hearth_up") == 1


def families(text):
    return dict(FAMILY.findall(text))


def test_every_metric_is_documented_and_the_dashboard_asks_for_none_else(port, server):
    found = families(scrape(port))
    text = (hearthd.ROOT / "docs" / "running.md").read_text()
    documented = set(re.findall(r"`((?:hearth|gen_ai_server|process)_[a-z_]+)", text))
    source = (hearthd.ROOT / "server" / "metrics" / "metrics_text.cpp").read_text()
    built = set(re.findall(r'"((?:hearth|gen_ai_server|process)_[a-z_]+)"', source))
    assert set(found) <= built
    assert built - documented == set(), "not in docs/running.md"
    assert documented - built == set(), "in docs/running.md only"
    board = json.loads((hearthd.ROOT / "docker" / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(queries) > 15
    asked = {re.sub(r"_(bucket|sum|count)$", "", name) if name not in built else name
             for query in queries
             for name in re.findall(r"\b((?:hearth|gen_ai_server|process)_[a-z_]+)\b", query)}
    assert asked <= built


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Debian's package prometheus")
def test_prometheus_finds_no_fault(port, server):
    checked = subprocess.run(["promtool", "check", "metrics"], input=scrape(port), capture_output=True,
                             text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs Debian's package prometheus")
def test_prometheus_scrapes_it(port, server, tmp_path):
    config = tmp_path / "prometheus.yml"
    config.write_text("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: hearthd\n"
                      f"  static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n")
    own = free_port()
    with open(tmp_path / "log", "w") as log:
        prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
             f"--web.listen-address=127.0.0.1:{own}"], stdout=log, stderr=log)
    try:
        def query(expression):
            try:
                answer = httpx.get(f"http://127.0.0.1:{own}/api/v1/query", params={"query": expression},
                                   timeout=hearthd.PATIENCE).json()
            except (httpx.TransportError, json.JSONDecodeError):  # it is still starting
                return None
            return ([float(one["value"][1]) for one in answer["data"]["result"]]
                    if answer["status"] == "success" else None)
        assert hearthd.wait_until(lambda: query('up{job="hearthd"} == 1'), "Prometheus to scrape") == [1]
        assert query("hearth_up") == [1]
        expected = total(samples(scrape(port)), "hearth_generated_tokens_total")
        assert hearthd.wait_until(lambda: query(f"hearth_generated_tokens_total == {expected}"),
                                  "the same total")
        board = json.loads((hearthd.ROOT / "docker" / "grafana-dashboard.json").read_text())
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                expression = target["expr"].replace("$__rate_interval", "1m")
                assert query(expression) is not None, f"Prometheus refuses {expression}"
    finally:
        prometheus.terminate()
        prometheus.wait(timeout=hearthd.PATIENCE)
