"""Several models in one server: choice by name, loading on demand, and one budget of memory."""
import concurrent.futures
import os
import pathlib
import shutil
import signal
import threading
import time

import httpx
import pytest

import gguf_edit
import hearthd
import small_model

ASK = {"prompt": "The", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
GIB = 1 << 30


@pytest.fixture
def folder(tmp_path):
    """Three models that differ in the context of their training."""
    models = tmp_path / "models"
    models.mkdir()
    shutil.copy(small_model.path(), models / "one.gguf")
    for name, context in (("two", 256), ("three", 384)):
        gguf_edit.copy_with(small_model.path(), models / f"{name}.gguf", {"llama.context_length": context})
    return models


@pytest.fixture
def start():
    servers = []

    def begin(*arguments, model=None, **keywords):
        servers.append(hearthd.Hearthd("--device", "cpu", *arguments, model=model, **keywords))
        return servers[-1]
    yield begin
    for server in servers:
        server.kill()


def complete(server, model, **fields):
    named = {} if model is None else {"model": model}
    return httpx.post(server.url + "/v1/completions", json={**ASK, **named, **fields},
                      timeout=hearthd.PATIENCE)


def get(server, path):
    return httpx.get(server.url + path, timeout=hearthd.PATIENCE)


def loaded(server):
    return {model["id"] for model in get(server, "/v1/models").json()["data"]
            if model["status"]["value"] == "loaded"}


def admin(server):
    return get(server, "/admin/model").json()


def memory_of_one(start, folder):
    """Bytes that the pool sets aside for a model of the folder, and those that the process takes itself."""
    server = start("--models-folder", folder, "--ram-budget", "1")
    assert complete(server, "one").status_code == 200
    state = admin(server)
    server.kill()
    return (next(model["memory_bytes"] for model in state["models"] if model["model"] == "one"),
            GIB - state["budget_bytes"])


def budget_for(start, folder, n_models):
    """--ram-budget with room for n_models of the folder, but not for one more."""
    one, own = memory_of_one(start, folder)
    return str((own + one * (n_models + 0.5)) / GIB)


def test_requests_choose_a_model_by_name(start, folder):
    server = start("--models-folder", folder)
    assert loaded(server) == set()
    assert server.health() == (200, {"status": "unloaded", "models": []})
    for name, context in (("two", 256), ("one", 512)):
        answer = complete(server, name)
        assert answer.status_code == 200 and answer.json()["model"] == name
        assert get(server, f"/v1/models/{name}").json()["max_model_len"] == context
    assert loaded(server) == {"one", "two"}
    running = get(server, "/api/ps").json()["models"]
    assert {model["name"] for model in running} == {"one:latest", "two:latest"}
    tags = get(server, "/api/tags").json()["models"]
    assert {model["name"] for model in tags} == {"one:latest", "two:latest", "three:latest"}
    assert all(model["size"] > 1_000_000 and model["details"]["family"] == "llama" for model in tags)
    ollama = httpx.post(server.url + "/api/generate", timeout=hearthd.PATIENCE, json={
        "model": "three:latest", "prompt": "The", "stream": False, "options": {"num_predict": 4}})
    assert ollama.status_code == 200 and ollama.json()["model"] == "three:latest"
    azure = httpx.post(server.url + "/openai/deployments/two/completions", json=ASK, timeout=hearthd.PATIENCE)
    assert azure.json()["model"] == "two"
    shown = get(server, "/props?model=three").json()
    assert shown["model_alias"] == "three" and shown["n_ctx"] == 384
    values = hearthd.samples(get(server, "/metrics").text)
    assert hearthd.total(values, "hearth_slots", gen_ai_response_model="two") == 4
    assert hearthd.total(values, "hearth_model_loaded", gen_ai_response_model="three") == 1
    assert any("model=two" in line and "POST /v1/completions" in line for line in server.lines)
    server.signal()
    assert server.wait() == 0


def test_unknown_and_missing_names(start, folder):
    server = start("--models-folder", folder)
    for path, body in (("/v1/completions", {**ASK, "model": "four"}),
                       ("/v1/embeddings", {"model": "four", "input": "x"})):
        answer = httpx.post(server.url + path, json=body, timeout=hearthd.PATIENCE)
        assert answer.status_code == 404 and answer.json()["error"]["code"] == "model_not_found"
        assert all(f"'{name}'" in answer.json()["error"]["message"] for name in ("four", "one", "two"))
    ollama = httpx.post(server.url + "/api/chat", json={"model": "four", "messages": []},
                        timeout=hearthd.PATIENCE)
    assert ollama.status_code == 404 and "four" in ollama.json()["error"]
    assert complete(server, None).status_code == 404  # none is loaded, and none is the first
    assert complete(server, "two").status_code == 200
    assert complete(server, None).json()["model"] == "two"  # the only one that is loaded
    assert get(server, "/v1/models/four").status_code == 404


def test_the_first_model_is_loaded_at_start_and_is_the_default(start, folder):
    server = start("--model", folder / "two.gguf", "--alias", "first", model=folder / "one.gguf")
    assert loaded(server) == {"first", "one"}
    for name, expected in ((None, "first"), ("", "first"), ("one", "one"), ("two", "two")):
        answer = complete(server, name)
        assert answer.status_code == 200 and answer.json()["model"] == expected
    assert loaded(server) == {"first", "one", "two"}


def test_options_of_one_model_are_refused(folder):
    for flags, part in ((["--chat-template-file", folder / "x"], "--chat-template-file"),
                        (["--alias", "x"], "--alias"), (["--pin", "four"], "--pin four"),
                        (["--models-folder", folder / "none"], "none")):
        done = hearthd.run(["--models-folder", folder, "--port", "0", "--device", "cpu", *flags])
        assert done.returncode == 2 and part in done.stderr, done.stderr
    same = folder / "same"
    same.mkdir()
    shutil.copy(folder / "one.gguf", same)
    done = hearthd.run(["--model", folder / "one.gguf", "--model", same / "one.gguf", "--port", "0"])
    assert done.returncode == 2 and "'one'" in done.stderr


def test_the_least_recently_used_model_makes_room(start, folder):
    server = start("--models-folder", folder, "--ram-budget", budget_for(start, folder, 2))
    for name, expected in (("one", {"one"}), ("two", {"one", "two"}), ("one", {"one", "two"}),
                           ("three", {"one", "three"}), ("two", {"two", "three"})):
        assert complete(server, name).status_code == 200, server.log()
        assert loaded(server) == expected
    state = admin(server)
    assert state["used_bytes"] <= state["budget_bytes"]


def test_a_pinned_model_stays(start, folder):
    server = start("--models-folder", folder, "--pin", "one", "--ram-budget", budget_for(start, folder, 2))
    for name, expected in (("one", {"one"}), ("two", {"one", "two"}), ("three", {"one", "three"}),
                           ("two", {"one", "two"})):
        assert complete(server, name).status_code == 200, server.log()
        assert loaded(server) == expected


def test_a_running_answer_is_never_cut_off(start, folder):
    server = start("--models-folder", folder, "--ram-budget", budget_for(start, folder, 1))
    whole = complete(server, "one", max_tokens=400).json()["choices"][0]["text"]
    with httpx.stream("POST", server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                      json={**ASK, "model": "one", "max_tokens": 400, "stream": True}) as answer:
        lines = answer.iter_lines()
        first = next(lines)
        with concurrent.futures.ThreadPoolExecutor() as threads:
            other = threads.submit(complete, server, "two")
            rest = [first, *lines]
            assert other.result().status_code == 200
    import json
    events = [json.loads(line[6:]) for line in rest if line.startswith("data: {")]
    assert "".join(event["choices"][0]["text"] for event in events) == whole
    assert "data: [DONE]" in rest


def test_models_that_fit_answer_at_the_same_time(start, folder):
    server = start("--models-folder", folder)
    expected = {name: complete(server, name, max_tokens=200).json()["choices"][0]["text"]
                for name in ("one", "two")}
    with concurrent.futures.ThreadPoolExecutor() as threads:
        answers = [(name, threads.submit(complete, server, name, max_tokens=200))
                   for _ in range(4) for name in ("one", "two")]
        for name, answer in answers:
            assert answer.result().json()["choices"][0]["text"] == expected[name]
    assert loaded(server) == {"one", "two"}


def test_all_models_get_their_turn_within_the_budget(start, folder):
    budget = budget_for(start, folder, 1)
    server = start("--models-folder", folder, "--ram-budget", budget)
    most, stop = [0], threading.Event()

    def watch():
        while not stop.is_set():
            for line in pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    most[0] = max(most[0], int(line.split()[1]) * 1024)
            time.sleep(0.01)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(9) as threads:
            answers = [threads.submit(complete, server, name)
                       for _ in range(6) for name in ("one", "two", "three")]
            assert {answer.result().status_code for answer in answers} == {200}
    finally:
        stop.set()
        watcher.join()
    assert most[0] <= float(budget) * GIB, server.log()
    state = admin(server)
    assert sum(model["status"] == "loaded" for model in state["models"]) == 1


def test_busy_models_do_not_starve_others(start, folder):
    server = start("--models-folder", folder, "--ram-budget", budget_for(start, folder, 1))
    stop, codes = threading.Event(), []

    def keep_busy():
        while not stop.is_set():
            codes.append(complete(server, "one", max_tokens=50).status_code)
    busy = [threading.Thread(target=keep_busy) for _ in range(3)]
    for thread in busy:
        thread.start()
    try:
        for name in ("two", "three", "two"):
            assert complete(server, name).status_code == 200
    finally:
        stop.set()
        for thread in busy:
            thread.join()
    assert set(codes) == {200}


def test_a_model_that_can_never_fit_is_refused(start, folder):
    one, own = memory_of_one(start, folder)
    server = start("--models-folder", folder, "--ram-budget", str((own + one * 0.5) / GIB))
    answer = complete(server, "one")
    assert answer.status_code == 500 and " needs " in answer.json()["error"]["message"]
    failed = get(server, "/v1/models/one").json()["status"]
    assert failed["value"] == "failed" and "needs" in failed["error"]


def test_broken_files_and_files_that_are_no_models(start, folder):
    (folder / "broken.gguf").write_text("not a model " * 100)
    shutil.copy(small_model.path(), folder / "half-00001-of-00002.gguf")
    gguf_edit.copy_with(small_model.path(), folder / "mmproj.gguf", {"general.architecture": "clip"})
    server = start("--models-folder", folder)
    assert any("mmproj" in line and "projector" in line for line in server.lines)
    assert any("half-00001" in line and "1 of its 2 parts" in line for line in server.lines)
    assert ({model["id"] for model in get(server, "/v1/models").json()["data"]}
            == {"broken", "one", "two", "three"})
    answer = complete(server, "broken")
    assert answer.status_code == 500 and "broken.gguf" in answer.json()["error"]["message"]
    os.remove(folder / "three.gguf")
    answer = complete(server, "three")
    assert answer.status_code == 500 and "three.gguf" in answer.json()["error"]["message"]
    assert complete(server, "one").status_code == 200


def test_sighup_lists_the_folder_again(start, folder):
    server = start("--models-folder", folder)
    assert complete(server, "two").status_code == 200
    shutil.copy(folder / "one.gguf", folder / "four.gguf")
    os.remove(folder / "two.gguf")
    server.signal(signal.SIGHUP)
    hearthd.wait_until(lambda: {model["id"] for model in get(server, "/v1/models").json()["data"]}
                       == {"one", "three", "four"}, "the new list")
    assert complete(server, "four").status_code == 200
    assert complete(server, "two").status_code == 404
    hearthd.wait_until(lambda: any("unloaded" in line and "two" in line for line in server.lines),
                       "the removed model to leave")


def test_the_same_name_in_two_subfolders(start, folder):
    for subfolder in ("a", "b"):
        (folder / subfolder).mkdir()
        shutil.copy(folder / "one.gguf", folder / subfolder / "same.gguf")
    server = start("--models-folder", folder)
    names = {model["id"] for model in get(server, "/v1/models").json()["data"]}
    assert names == {"one", "two", "three", "a/same", "b/same"}
    assert complete(server, "a/same").json()["model"] == "a/same"


def test_administration_by_name(start, folder):
    server = start("--models-folder", folder)

    def change(**body):
        return httpx.post(server.url + "/admin/model", json=body, timeout=hearthd.PATIENCE)
    assert change(model="two").json() == {"status": "loading", "model": "two"}
    hearthd.wait_until(lambda: loaded(server) == {"two"}, "the model to be loaded")
    assert change(model="two", action="unload").status_code == 202
    hearthd.wait_until(lambda: loaded(server) == set(), "the model to be unloaded")
    assert change(model="four").status_code == 404
    assert change(model="two", action="x").status_code == 400


def test_stored_responses_are_found_again(start, folder):
    server = start("--models-folder", folder)
    kept = httpx.post(server.url + "/v1/responses", timeout=hearthd.PATIENCE,
                      json={"model": "three", "input": "The", "max_output_tokens": 16}).json()
    assert complete(server, "one").status_code == 200
    assert get(server, f"/v1/responses/{kept['id']}").json()["id"] == kept["id"]
    assert get(server, "/v1/responses/resp_none").status_code == 404


def test_rows_of_one_model_name_each_other(start, folder):
    server = start("--alias", "first", "--models-folder", folder, model=folder / "one.gguf")
    rows = {row["id"]: row for row in get(server, "/v1/models").json()["data"]}
    assert {name: row["aliases"] for name, row in rows.items()} == {
        "first": ["one"], "one": ["first"], "two": [], "three": []}
    assert all(row["generates"] for row in rows.values())  # also of the two that are not loaded


def test_a_model_of_the_folder_does_not_take_an_alias(start, folder):
    server = start("--alias", "two", "--models-folder", folder, model=folder / "one.gguf")
    rows = [row["id"] for row in get(server, "/v1/models").json()["data"]]
    assert sorted(rows) == ["one", "three", "two"]
    assert any("two.gguf is left out: another model has its name" in line for line in server.lines)


def test_idle_models_are_unloaded_one_by_one(start, folder):
    server = start("--models-folder", folder, "--idle-unload", "0.01")
    assert complete(server, "one").status_code == 200
    hearthd.wait_until(lambda: loaded(server) == set(), "the model to be unloaded")
    assert complete(server, "one").status_code == 200


def test_stops(start, folder):
    server = start("--models-folder", folder)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        answers = [threads.submit(complete, server, name, max_tokens=300) for name in ("one", "two", "three")]
        hearthd.wait_until(lambda: any("loading" in line for line in server.lines), "a load")
        server.signal()
        assert server.wait() == 0, server.log()
        for answer in answers:
            try:
                assert answer.result().status_code in (200, 503)
            except httpx.TransportError:
                pass  # the request arrived after the port was closed


needs_emulator = pytest.mark.skipif(not hearthd.EMULATED.exists(), reason=f"{hearthd.EMULATED} is not built")


@needs_emulator
def test_a_gpu_has_one_model_at_a_time(folder):
    server = hearthd.Hearthd("--models-folder", folder, binary=hearthd.EMULATED, model=folder / "one.gguf")
    try:
        for name in ("one", "two", "one"):
            assert complete(server, name).status_code == 200
            assert loaded(server) == {name}
        with concurrent.futures.ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda name: complete(server, name), ["one", "two", "three"] * 2))
        assert [answer.status_code for answer in answers] == [200] * 6
        assert len(loaded(server)) == 1
    finally:
        server.kill()


@needs_emulator
def test_a_gpu_and_a_pinned_model_exclude_each_other(folder):
    refused = hearthd.run(["--port", "0", "--models-folder", str(folder), "--pin", "one"],
                          binary=hearthd.EMULATED)
    assert refused.returncode == 2 and "--pin has no use with a GPU" in refused.stderr
