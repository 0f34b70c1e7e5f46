"""Replacing the model without a restart, and unloading models while there are no requests."""
import os
import shutil
import signal
import threading

import httpx
import pytest

import gguf_edit
import hearthd
import small_model

ASK = {"prompt": "The", "max_tokens": 8, "temperature": 0, "ignore_eos": True}


@pytest.fixture
def folder(tmp_path):
    """Two models: the second is a copy of the first with a shorter context."""
    shutil.copy(small_model.path(), tmp_path / "first.gguf")
    gguf_edit.copy_with(small_model.path(), tmp_path / "second.gguf", {"llama.context_length": 256})
    return tmp_path


@pytest.fixture
def start():
    servers = []

    def begin(*arguments, **keywords):
        servers.append(hearthd.Hearthd("--device", "cpu", *arguments, **keywords))
        return servers[-1]
    yield begin
    for server in servers:
        server.kill()


def complete(server, **fields):
    return httpx.post(server.url + "/v1/completions", json={**ASK, **fields}, timeout=hearthd.PATIENCE)


def replace(server, path, **fields):
    return httpx.post(server.url + "/admin/model", json={"model": str(path), **fields},
                      timeout=hearthd.PATIENCE)


def served(server):
    return httpx.get(server.url + "/v1/models", timeout=hearthd.PATIENCE).json()["data"]


def state(server):
    return httpx.get(server.url + "/admin/model", timeout=hearthd.PATIENCE).json()


def test_requests_go_on_while_another_model_takes_its_place(start, folder):
    server = start(model=folder / "first.gguf")
    expected = complete(server).json()["choices"][0]["text"]
    stop, answers = threading.Event(), []

    def ask():
        with httpx.Client(timeout=hearthd.PATIENCE) as client:
            while not stop.is_set():
                answers.append(client.post(server.url + "/v1/completions", json=ASK))
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for path in ("second.gguf", "first.gguf", "second.gguf"):
            accepted = replace(server, folder / path)
            assert accepted.status_code == 202, accepted.text
            n_before = len(answers)
            hearthd.wait_until(lambda: any(answer.json().get("model") == path.removesuffix(".gguf")
                                           for answer in answers[n_before:]),
                               f"{path} to answer")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["choices"][0]["text"] for answer in answers} == {expected}
    assert {answer.json()["model"] for answer in answers} == {"first", "second"}
    assert ([model["id"] for model in served(server)] == ["second"]
            and served(server)[0]["max_model_len"] == 256)
    hearthd.wait_until(lambda: sum("unloaded" in line for line in server.lines) == 3,
                       "the models before to go")
    server.signal()
    assert server.wait() == 0


def test_an_answer_that_has_begun_is_finished_by_the_model_that_began_it(start, folder):
    server = start(model=folder / "first.gguf")
    whole = complete(server, max_tokens=400).json()["choices"][0]["text"]
    with httpx.stream("POST", server.url + "/v1/completions", json={**ASK, "max_tokens": 400, "stream": True},
                      timeout=hearthd.PATIENCE) as answer:
        lines = answer.iter_lines()
        first = next(lines)
        assert replace(server, folder / "second.gguf", alias=["other"]).status_code == 202
        rest = [first, *lines]
    import json
    events = [json.loads(line[6:]) for line in rest if line.startswith("data: {")]
    assert "".join(event["choices"][0]["text"] for event in events) == whole
    assert rest[-1] == "data: [DONE]" or "data: [DONE]" in rest
    hearthd.wait_until(lambda: state(server)["model"] == "other", "the other model")
    assert [model["id"] for model in served(server)] == ["other", "second"]


def test_a_model_that_cannot_be_served_is_refused_and_the_old_one_stays(start, folder):
    server = start(model=folder / "first.gguf")
    (folder / "text.gguf").write_text("not a model " * 100)
    for body, part in (({"model": str(folder / "none.gguf")}, "none.gguf"),
                       ({"model": str(folder / "text.gguf")}, "text.gguf"),
                       ({"model": str(folder)}, str(folder)), ({"model": 3}, "'model'"), ({}, "'model'"),
                       ({"model": str(folder / "second.gguf"), "context": -1}, "'context'"),
                       ({"model": str(folder / "second.gguf"), "alias": "x"}, "'alias'")):
        answer = httpx.post(server.url + "/admin/model", json=body, timeout=hearthd.PATIENCE)
        assert answer.status_code == 400 and part in answer.json()["error"]["message"], answer.text
    assert httpx.put(server.url + "/admin/model", json={}, timeout=hearthd.PATIENCE).status_code == 405
    assert state(server) == {"model": "first", "status": "serving"}
    # The file is complete, but the model was not trained for so long a context.
    assert replace(server, folder / "second.gguf", context=100_000).status_code == 202
    hearthd.wait_until(lambda: "error" in state(server), "the load to fail")
    assert "context" in state(server)["error"]
    assert state(server)["model"] == "first"
    assert complete(server).status_code == 200


def test_administration_needs_its_role(start, folder):
    server = start(model=folder / "first.gguf", env={"HEARTH_API_KEY": "role=use,admin key=k"})
    assert httpx.get(server.url + "/admin/model", timeout=hearthd.PATIENCE).status_code == 401
    assert httpx.get(server.url + "/admin/model", headers={"X-Api-Key": "k"},
                     timeout=hearthd.PATIENCE).status_code == 200
    other = start(model=folder / "first.gguf", env={"HEARTH_API_KEY": "k"})
    assert httpx.get(other.url + "/admin/model", headers={"X-Api-Key": "k"},
                     timeout=hearthd.PATIENCE).status_code == 403


def test_sighup_takes_a_file_that_has_changed(start, folder):
    server = start(model=folder / "first.gguf")
    assert served(server)[0]["max_model_len"] == 512
    server.signal(signal.SIGHUP)
    hearthd.wait_until(lambda: any("SIGHUP: reloaded" in line for line in server.lines), "the reload")
    assert not any("loading another model" in line for line in server.lines)
    os.replace(folder / "second.gguf", folder / "first.gguf")
    server.signal(signal.SIGHUP)
    hearthd.wait_until(lambda: served(server)[0]["max_model_len"] == 256, "the changed file")


def test_an_idle_model_is_unloaded_and_comes_back(start, folder):
    server = start("--idle-unload", "0.01", model=folder / "first.gguf")
    expected = complete(server).json()["choices"][0]["text"]
    for _ in range(2):
        hearthd.wait_until(lambda: server.health()[1]["status"] == "unloaded", "the model to be unloaded")
        assert server.health()[0] == 200
        assert httpx.get(server.url + "/readyz", timeout=hearthd.PATIENCE).status_code == 200
        assert "hearth_slots" not in httpx.get(server.url + "/metrics", timeout=hearthd.PATIENCE).text
        answer = complete(server)
        assert answer.status_code == 200 and answer.json()["choices"][0]["text"] == expected
    hearthd.wait_until(lambda: server.health()[1]["status"] == "unloaded", "the model to be unloaded")
    os.remove(folder / "first.gguf")
    # and the server ends, because it has no model to serve any more
    assert complete(server).status_code == 503
    assert server.wait() == 1


LISTS = ["/v1/models", "/v1/models/first", "/v1/models/vectors", "/api/tags", "/api/ps"]


def test_lists_do_not_load_an_idle_model(start, folder):
    """Frontends ask for the lists at any time."""
    options = ["--alias", "first", "--alias", "other", "--embedding-model", folder / "second.gguf",
               "--embedding-alias", "vectors"]
    loaded = start(*options, model=folder / "first.gguf")
    idle = start(*options, "--idle-unload", "0.01", model=folder / "first.gguf")

    def lists(server):
        answers = {path: httpx.get(server.url + path, timeout=hearthd.PATIENCE).json() for path in LISTS}
        of_anthropic = httpx.get(server.url + "/v1/models", headers={"anthropic-version": "2023-06-01"},
                                 timeout=hearthd.PATIENCE).json()["data"]
        return answers, [row["id"] for row in of_anthropic]
    hearthd.wait_until(lambda: idle.health()[1]["status"] == "unloaded", "the model to be unloaded")
    (expected, expected_names), (found, names) = lists(loaded), lists(idle)
    assert names == expected_names
    rows, expected_rows = found["/v1/models"]["data"], expected["/v1/models"]["data"]
    assert [row["id"] for row in rows] == [row["id"] for row in expected_rows]
    assert [row.pop("status") for row in rows] == [{"value": "unloaded"}] * len(rows)
    for row, expected_row in zip(rows, expected_rows):
        assert all(row[name] == expected_row[name] for name in row if name != "created")
    assert found["/v1/models/vectors"]["generates"] is False
    assert found["/v1/models/first"]["aliases"] == ["other"]
    assert found["/api/tags"] == expected["/api/tags"] and found["/api/ps"] == {"models": []}
    assert httpx.get(idle.url + "/v1/models/none", timeout=hearthd.PATIENCE).status_code == 404
    assert idle.health()[1]["status"] == "unloaded"
    assert complete(idle).status_code == 200


def test_an_open_page_does_not_keep_a_model_loaded(start, folder):
    server = start("--idle-unload", "0.02", model=folder / "first.gguf")
    with httpx.stream("GET", server.url + "/page/events", timeout=hearthd.PATIENCE) as watched:
        next(watched.iter_lines())
        hearthd.wait_until(lambda: any("unloaded" in line and "first" in line for line in server.lines),
                           "the model to go")
    refused = httpx.get(server.url + "/page/events", timeout=hearthd.PATIENCE)
    assert refused.status_code == 503 and "unloaded" in refused.json()["error"]["message"]
    assert server.health()[1]["status"] == "unloaded"
    assert complete(server).status_code == 200


def test_a_stop_while_a_model_is_unloaded_is_a_stop(start, folder):
    server = start("--idle-unload", "0.005", model=folder / "first.gguf")
    hearthd.wait_until(lambda: server.health()[1]["status"] == "unloaded", "the model to be unloaded")
    server.signal()
    assert server.wait() == 0
