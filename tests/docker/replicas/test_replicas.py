"""Three hearthd behind docker/replicas' nginx: a killed replica, restarts in turn, stored responses, full
queues, and the prefix cache."""
import concurrent.futures
import json
import signal
import socket
import threading

import httpx
import openai
import pytest

import hearthd
import nginx
import small_model

N = 3


@pytest.fixture(scope="module")
def model():
    return small_model.path()


def daemon(model, *flags, port=0):
    return hearthd.Hearthd("--slots", 4, "--device", "cpu", "--threads", 1,
                           "--allowed-host", "*", "--drain-seconds", 60, *flags,
                           "--port", port, model=model)


@pytest.fixture()
def replicas(tmp_path, model):
    """replicas(*flags, ...) -> (daemons, nginx)."""
    made, proxies = [], []

    def make(*flags, n=N, slots=4, **options):
        daemons = [daemon(model, *flags) for _ in range(n)]
        made.extend(daemons)
        proxies.append(nginx.Nginx(tmp_path / "nginx", [one.port for one in daemons], slots=slots, **options))
        return daemons, proxies[0]

    make.also = made.append
    yield make
    for proxy in proxies:
        proxy.stop()
    for one in made:
        one.kill()


def chat(i, turns=0, **fields):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Question {i}"}]
    messages += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And then?"}] * turns
    return {"messages": messages, "max_tokens": 4, "temperature": 0, "ignore_eos": True, **fields}


def sdk(proxy):
    return openai.OpenAI(base_url=proxy.url + "/v1", api_key="none", max_retries=0, timeout=hearthd.PATIENCE)


def answered(daemon):
    """How many chats this replica has answered."""
    lines = httpx.get(daemon.url + "/metrics", timeout=hearthd.PATIENCE).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines
               if line.startswith("hearth_http_requests_total{") and 'chat/completions"' in line
               and 'code="200"' in line)


def test_a_conversation_finds_its_prefix_again(replicas):
    daemons, proxy = replicas()
    with httpx.Client(timeout=hearthd.PATIENCE) as http:
        for i in range(3):
            before = [answered(one) for one in daemons]
            first = http.post(proxy.url + "/v1/chat/completions", json=chat(i)).json()["usage"]
            second = http.post(proxy.url + "/v1/chat/completions", json=chat(i, 1)).json()["usage"]
            assert second["prompt_tokens_details"]["cached_tokens"] >= first["prompt_tokens"] // 2
            assert sorted(answered(one) - past for one, past in zip(daemons, before)) == [0, 0, 2]


def test_a_killed_replica_ends_its_open_streams_and_nothing_else(replicas):
    daemons, proxy = replicas("--slots", 16, slots=64)
    begun = []

    def stream(i):
        """The result for a user of the SDK: how the text ended, or the classes of the exception."""
        try:
            with sdk(proxy) as client:
                last = None
                for last in client.chat.completions.create(model="", stream=True,
                                                           extra_body={"ignore_eos": True}, temperature=0,
                                                           messages=chat(i)["messages"], max_tokens=450):
                    if i not in begun:
                        begun.append(i)
                return last.choices[0].finish_reason
        except Exception as error:
            return type(error).__mro__

    def ask(i):
        return httpx.post(proxy.url + "/v1/chat/completions", json=chat(i, max_tokens=60),
                          timeout=hearthd.PATIENCE).status_code

    def frozen(i):
        """The replica that has begun to answer stream i, stopped in the middle of it; None if the stream was
        too fast."""
        future = pool.submit(stream, i)
        hearthd.wait_until(lambda: i in begun or future.done(), "the stream to begin")
        for one in daemons:
            if one.n_running():
                one.signal(signal.SIGSTOP)
                return one, future
        return None

    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        victim, first = next(found for found in map(frozen, range(100)) if found)
        asked = [pool.submit(ask, 200 + i) for i in range(20)]  # some wait for the victim and are sent again
        streams = [pool.submit(stream, 300 + i) for i in range(6)]
        hearthd.wait_until(lambda: sum(future.done() for future in asked) > 3, "answers of the others")
        assert not first.done()
        victim.kill()
        asked += [pool.submit(ask, 400 + i) for i in range(10)]
        assert [future.result() for future in asked] == [200] * 30
        assert [future.result() for future in streams] == ["length"] * 6
        assert issubclass(first.result()[0], openai.APIConnectionError), first.result()


@pytest.mark.image
def test_a_rolling_restart_under_load_loses_nothing(replicas, model):
    daemons, proxy = replicas("--queue", 200, slots=64)
    ports, stop, results = [one.port for one in daemons], threading.Event(), []

    def load(worker):
        with httpx.Client(timeout=hearthd.PATIENCE) as http:
            i = worker
            while not stop.is_set():
                i += 8
                if worker % 2:
                    with http.stream("POST", proxy.url + "/v1/chat/completions",
                                     json=chat(i, max_tokens=60, stream=True)) as answer:
                        text = answer.read().decode()
                        results.append((answer.status_code, "" if text.rstrip().endswith("[DONE]") else text))
                else:
                    answer = http.post(proxy.url + "/v1/chat/completions", json=chat(i, max_tokens=20))
                    results.append((answer.status_code,
                                    "" if '"completion_tokens":20' in answer.text.replace(" ", "")
                                    else answer.text))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        workers = [pool.submit(load, worker) for worker in range(8)]
        for place, one in enumerate(daemons):
            n = len(results)
            hearthd.wait_until(lambda: len(results) > n + 15, "answers between restarts")
            one.signal(signal.SIGTERM)
            assert one.wait() == 0
            daemons[place] = daemon(model, port=ports[place])
            replicas.also(daemons[place])
        n = len(results)
        hearthd.wait_until(lambda: len(results) > n + 15, "answers after the last restart")
        stop.set()
        for worker in workers:
            worker.result()
    assert len(results) > 60 and set(results) == {(200, "")}


@pytest.mark.image
def test_another_replica_takes_over_its_share_of_conversations(replicas, model):
    daemons, proxy = replicas()
    proxy.write([one.port for one in daemons], show_conversation=True)

    def homes():
        found = {}
        with httpx.Client(timeout=hearthd.PATIENCE) as http:
            for i in range(80):
                answer = http.post(proxy.url + "/v1/chat/completions", json=chat(i, max_tokens=1))
                found[i] = answer.headers["X-Replica"]
        return found

    def change(text):
        return text.replace("    proxy_http_version",
                            "    add_header X-Replica $upstream_addr always;\n    proxy_http_version", 1)

    proxy.change = change
    proxy.write([one.port for one in daemons])
    proxy.reload()
    hearthd.wait_until(
        lambda: "X-Replica" in httpx.post(proxy.url + "/v1/chat/completions", json=chat(0),
                                          timeout=hearthd.PATIENCE).headers, "the reload")
    before = homes()
    fourth = daemon(model)
    replicas.also(fourth)
    proxy.write([one.port for one in [*daemons, fourth]])
    proxy.reload()
    hearthd.wait_until(lambda: str(fourth.port) in "".join(homes().values()), "the reload")
    after = homes()
    moved = [i for i in before if before[i] != after[i]]
    assert all(after[i].endswith(f":{fourth.port}") for i in moved)
    assert 5 <= len(moved) <= 40, len(moved)  # about 20 of 80


def test_a_kept_response_is_found_wherever_it_is(replicas):
    _, proxy = replicas()
    with sdk(proxy) as client:
        for i in range(4):
            first = client.responses.create(model="", input=f"Question {i}", max_output_tokens=4)
            second = client.responses.create(model="", input="And?", previous_response_id=first.id,
                                             max_output_tokens=4)
            third = client.responses.create(model="", input="So?", previous_response_id=second.id,
                                            max_output_tokens=4)
            assert client.responses.retrieve(second.id).previous_response_id == first.id
            assert len(client.responses.input_items.list(third.id).data) >= 1
            client.responses.delete(third.id)
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve(third.id)
        with pytest.raises(openai.NotFoundError) as refused:
            client.responses.create(model="", input="And?", previous_response_id="resp_none")
        assert refused.value.code == "previous_response_not_found"
        made = client.responses.create(model="", input="x", background=True, max_output_tokens=300)
        assert client.responses.cancel(made.id).id == made.id


def test_a_replica_alone_says_400_to_an_unknown_response(replicas):
    daemons, _ = replicas(n=1)
    body = {"input": "And?", "previous_response_id": "resp_none"}
    plain = httpx.post(daemons[0].url + "/v1/responses", json=body, timeout=hearthd.PATIENCE)
    asked = httpx.post(daemons[0].url + "/v1/responses", json=body, headers={"X-Ask-Others": "yes"},
                       timeout=hearthd.PATIENCE)
    assert (plain.status_code, asked.status_code) == (400, 404)
    assert plain.json()["error"]["code"] == asked.json()["error"]["code"] == "previous_response_not_found"
    assert plain.json()["error"]["message"] == asked.json()["error"]["message"]


def test_one_popular_conversation_uses_every_replica(tmp_path):
    """Bounded load: of twelve requests with the same beginning, three replicas with four slots get four
    each."""
    together = threading.Barrier(12)

    def when_all_are_there(handler, body):
        together.wait(hearthd.PATIENCE)
        nginx.say_port(handler, body)

    replicas = [nginx.StandIn(when_all_are_there) for _ in range(3)]
    proxy = nginx.Nginx(tmp_path / "nginx", [one.port for one in replicas], slots=4)
    try:
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda _: httpx.post(proxy.url + "/v1/chat/completions", json=chat(0),
                                                         timeout=hearthd.PATIENCE),
                                    range(12)))
        assert all(answer.status_code == 200 for answer in answers)
        assert [len(one.requests) for one in replicas] == [4, 4, 4]
    finally:
        proxy.stop()
        for one in replicas:
            one.stop()


@pytest.mark.image
def test_429_is_returned_only_if_all_replicas_return_it(replicas):
    """If one replica refuses, the next gets the request; if both refuse, the 429 is passed on."""
    daemons, proxy = replicas("--queue", 1)

    def ask(i):
        answer = httpx.post(proxy.url + "/v1/chat/completions", json=chat(0, max_tokens=200),
                            timeout=hearthd.PATIENCE)
        return answer.status_code, answer.headers.get("retry-after"), answer.json()

    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        results = [future.result() for future in [pool.submit(ask, i) for i in range(40)]]
    assert {status for status, _, _ in results} <= {200, 429}
    assert sum(status == 200 for status, _, _ in results) >= 12
    for status, retry_after, body in results:
        assert status == 200 or (body["error"]["code"] == "queue_full" and int(retry_after) >= 1)


def test_without_any_replica_the_error_is_a_sentence(tmp_path):
    proxy = nginx.Nginx(tmp_path / "nginx", [nginx.free_port()])
    try:
        for path in ("/v1/chat/completions", "/v1/responses", "/v1/embeddings"):
            answer = httpx.post(proxy.url + path, json=chat(0), timeout=hearthd.PATIENCE)
            assert answer.status_code == 502 and answer.json()["error"]["code"] == "no_replica", answer.text
            assert answer.headers["retry-after"] == "1"
    finally:
        proxy.stop()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/responses/input_tokens"])
def test_a_request_that_crashes_replicas_is_not_retried_on_all(tmp_path, path):
    def break_off(handler, body):
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True

    replicas = [nginx.StandIn(break_off) for _ in range(4)]
    proxy = nginx.Nginx(tmp_path / "nginx", [one.port for one in replicas])
    try:
        answer = httpx.post(proxy.url + path, json={**chat(0), "input": "So?"}, timeout=hearthd.PATIENCE)
        assert answer.status_code == 502 and answer.json()["error"]["code"] == "no_replica"
        assert sum(len(one.requests) for one in replicas) == 2
    finally:
        proxy.stop()
        for one in replicas:
            one.stop()


def test_a_kept_response_is_found_beside_dead_and_full_replicas(tmp_path):
    def refuse(status):
        return nginx.StandIn(lambda handler, body: nginx.say(handler, status, {"error": {}}))

    knows, forgot, full = nginx.StandIn(), refuse(404), refuse(429)
    dead = [nginx.free_port(), nginx.free_port()]
    proxy = nginx.Nginx(tmp_path / "nginx", [dead[0], full.port, forgot.port, dead[1], knows.port])
    try:
        with httpx.Client(timeout=hearthd.PATIENCE) as http:
            for i in range(12):
                body = {"input": "And?", "previous_response_id": f"resp_{i}"}
                for answer in (http.post(proxy.url + "/v1/responses", json=body),
                               http.post(proxy.url + "/v1/responses/input_tokens", json=body),
                               http.get(proxy.url + f"/v1/responses/resp_{i}"),
                               http.post(proxy.url + f"/v1/responses/resp_{i}/cancel")):
                    assert answer.status_code == 200 and answer.json()["port"] == knows.port
    finally:
        proxy.stop()
        for one in (knows, forgot, full):
            one.stop()


def test_a_new_response_goes_to_another_replica_if_its_own_is_full(tmp_path):
    full = nginx.StandIn(lambda handler, body: nginx.say(handler, 429, {"error": {}}))
    free = nginx.StandIn()
    proxy = nginx.Nginx(tmp_path / "nginx", [full.port, free.port])
    try:
        for i in range(8):
            answer = httpx.post(proxy.url + "/v1/responses", json={"input": f"Question {i}"},
                                timeout=hearthd.PATIENCE)
            assert answer.status_code == 200 and answer.json()["port"] == free.port
        assert full.requests
    finally:
        proxy.stop()
        for one in (full, free):
            one.stop()


def test_tokens_pass_as_they_come(replicas):
    _, proxy = replicas(n=1)
    with httpx.stream("POST", proxy.url + "/v1/chat/completions", json=chat(0, max_tokens=300, stream=True),
                      timeout=hearthd.PATIENCE) as answer:
        pieces = list(answer.iter_raw())
    assert len(pieces) > 20


def test_clients_behind_a_trusted_proxy_are_told_apart(replicas):
    daemons, proxy = replicas("--trusted-proxy", "127.0.0.1", "--log-format", "json", n=1)
    for client in ("192.0.2.7", "192.0.2.8"):
        httpx.post(proxy.url + "/v1/chat/completions", json=chat(0), headers={"X-Forwarded-For": client},
                   timeout=hearthd.PATIENCE)
    # nginx appends the address of its own client, this machine, to the header. That address is trusted too,
    # so hearthd takes the address before it.

    def clients():
        lines = [json.loads(line) for line in list(daemons[0].lines)]
        return {line.get("client")
                for line in lines if "chat/completions" in line["message"] and "status" in line}

    hearthd.wait_until(lambda: clients() == {"192.0.2.7", "192.0.2.8"}, "a line of each client")
