"""hearthd with an emulated GPU: its log and errors, that its answers equal the CPU's, and what happens when
CUDA fails.

The program is hearthd linked with the emulator (tests/support/cudaemu). Its device is small, and CUDAEMU_*
variables (control.h there) make it fail.
"""
import concurrent.futures
import json
import re
import subprocess

import httpx
import pytest

import hearthd

RELU = hearthd.ROOT / "tests/data/arch/relu-llama.gguf"
PREDICTING = hearthd.ROOT / "tests/data/arch/qwen35-nextn.gguf"
PREDICTED = hearthd.ROOT / "tests/data/arch/bamboo.powerinfer.gguf"
# scratch is most of the memory that so small a model takes
SMALL = ("--context", "64", "--slots", "2", "--prefill-chunk", "16")
LARGER = hearthd.ROOT / "tests/data/relu/relu-5m-q8_0.gguf"
PROMPTS = ["The old", "She said", "Once"]

pytestmark = pytest.mark.skipif(not hearthd.EMULATED.exists(),
                                reason=f"{hearthd.EMULATED} is not built: CUDA's headers are not installed")


@pytest.fixture()
def serve():
    started = []

    def make(*flags, model=RELU, **options):
        started.append(hearthd.Hearthd("--threads", "1", *flags, model=model, binary=hearthd.EMULATED,
                                       **options))
        return started[-1]

    yield make
    for one in started:
        one.kill()


def refused(*flags, model=RELU, env=None):
    """The last line of a start that must fail with exit code 2."""
    done = hearthd.run(["--model", model, "--port", "0", "--threads", "1", *flags], env=env,
                       binary=hearthd.EMULATED)
    assert done.returncode == 2, done.stderr
    assert "terminate called" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


def complete(server, prompt, n=8, **more):
    return httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                      json={"prompt": prompt, "max_tokens": n, "temperature": 0, **more})


def texts(server, n=8):
    answers = [complete(server, prompt, n) for prompt in PROMPTS]
    assert [answer.status_code for answer in answers] == [200] * len(PROMPTS), answers[0].text
    return [answer.json()["choices"][0]["text"] for answer in answers]


def device_of(server):
    models = httpx.get(server.url + "/v1/models", timeout=hearthd.PATIENCE).json()
    return models["data"][0]["device"]


def cuda_lines(server):
    return [line.split(" CUDA: ")[1] for line in server.lines if " CUDA: " in line]


def gpu_line(server, part):
    lines = [line for line in server.lines if part in line]
    assert lines, server.log()
    return lines[0]


@pytest.fixture(scope="module")
def texts_of_cpu():
    server = hearthd.Hearthd("--threads", "1", "--device", "cpu", *SMALL, model=RELU, binary=hearthd.EMULATED)
    yield texts(server)
    server.kill()


def test_the_log_shows_the_chosen_device(serve):
    by_cpu, by_choice, by_gpu = serve("--device", "cpu"), serve("--device", "cuda"), serve()
    without = serve(env={"CUDAEMU_DEVICES": "0"})
    assert cuda_lines(by_cpu) == ["not used (--device cpu), running on the CPU"]
    assert cuda_lines(without) == ["none (no NVIDIA GPU), running on the CPU"]
    for server in (by_cpu, without):
        assert device_of(server).startswith("CPU ")
    for server in (by_choice, by_gpu):
        assert [re.match("emulated, 8192 MiB, compute capability 8.0", line) is not None
                for line in cuda_lines(server)] == [True]
        assert device_of(server).startswith("CUDA emulated")
        assert "the whole model" in gpu_line(server, "GPU: ")


# Each launch finds no kernel image for the device.
NO_CODE = {"CUDAEMU_FAIL": "launch:0:209:99", "CUDAEMU_COMPUTE_CAPABILITY": "103"}


def test_a_gpu_without_code_in_the_program_is_not_used(serve, texts_of_cpu):
    server = serve(*SMALL, env=NO_CODE)
    assert device_of(server).startswith("CPU ")
    [line] = cuda_lines(server)
    assert line.startswith(
        "none (emulated has compute capability 10.3, and this program has no code for it")
    assert "-DHEARTH_CUDA_ARCHITECTURES=103" in line and line.endswith("running on the CPU")
    assert texts(server) == texts_of_cpu


def test_a_requested_gpu_must_be_present():
    for env, reason in [({"CUDAEMU_DEVICES": "0"}, "no NVIDIA GPU"),
                        ({"CUDAEMU_COMPUTE_CAPABILITY": "61"}, "compute capability 6.1, below 7.5"),
                        ({"CUDAEMU_FAIL": "cudaGetDeviceProperties:0:999:9"}, "unknown error"),
                        (NO_CODE, "no code for it")]:
        sentence = refused("--device", "cuda", env=env)
        assert "--device cuda" in sentence and reason in sentence and "--device auto" in sentence, sentence


def test_activations_of_8_bits_stay_on_the_cpu(serve):
    """They are refused if the GPU was requested. Otherwise the model stays on the CPU, and the log says
    so."""
    sentence = refused("--device", "cuda", "--activation-bits", "8")
    assert "--activation-bits 8 runs on the CPU only; take --device auto or cpu." in sentence
    server = serve("--activation-bits", "8")
    assert device_of(server).startswith("CPU ") and "8-bit" in device_of(server)
    assert "--activation-bits 8 runs on the CPU only: the GPU is not used" in server.log()


def test_keys_and_values_of_8_bits_give_the_cpus_text_on_the_gpu(serve):
    small = ("--context", "128", "--slots", "2", "--prefill-chunk", "64", "--kv-type", "q8_0")
    by_gpu, by_cpu = (serve("--device", device, *small, model=LARGER) for device in ("cuda", "cpu"))
    assert device_of(by_gpu).startswith("CUDA ")
    assert texts(by_gpu) == texts(by_cpu)


def test_types_that_the_gpu_does_not_support_stay_on_the_cpu(serve, tmp_path):
    model = tmp_path / "mxfp4.gguf"
    subprocess.run([hearthd.BUILD / "hearth-profiler", "synth", "--shape", "tiny", "--quant", "mxfp4",
                    "--out", model],
                   check=True, capture_output=True, timeout=hearthd.PATIENCE)
    sentence = refused("--device", "cuda", model=model)
    assert "is of type MXFP4, which runs on the CPU only; take --device auto or cpu." in sentence
    server = serve(model=model)
    assert device_of(server).startswith("CPU ")
    assert "is of type MXFP4, which runs on the CPU only: the GPU is not used" in server.log()


# In GiB; the model takes 0.00037 with all its neurons.
@pytest.mark.parametrize("budget", ["auto", "1", "0.00036", "0.00035", "0.00034"])
def test_every_budget_gives_the_cpus_text(serve, texts_of_cpu, budget):
    server = serve("--device", "cuda", "--vram-budget", budget, *SMALL)
    assert texts(server) == texts_of_cpu
    line = gpu_line(server, "GPU: ")
    assert ("the whole model" in line) == (budget in ("auto", "1")), line


def test_the_layer_that_predicts_later_tokens_drafts_on_the_gpu(serve):
    flags = ("--context", "128", "--slots", "2", "--prefill-chunk", "16")
    on_cpu = serve("--device", "cpu", *flags, model=PREDICTING)
    on_gpu = serve("--device", "cuda", *flags, model=PREDICTING)
    without = serve("--device", "cuda", "--speculate", "text", *flags, model=PREDICTING)
    assert texts(on_cpu, 24) == texts(on_gpu, 24) == texts(without, 24)
    drafts = re.compile(r'hearth_memory_bytes\{[^}]*place="vram",purpose="drafts"\} [1-9]')
    in_use = [bool(drafts.search(httpx.get(server.url + "/metrics", timeout=hearthd.PATIENCE).text))
              for server in (on_cpu, on_gpu, without)]
    assert in_use == [False, True, False]
    assert any("the layer that predicts later tokens" in line for line in on_gpu.lines)


def test_a_mixture_gives_the_cpus_text_wherever_its_experts_are_and_counts_who_computed_them(serve):
    def answers(*flags):
        """The texts, and the metrics once all answers are in them, which may be after the last answer."""
        server = serve(*flags, *SMALL, model=hearthd.ROOT / "tests/data/arch/qwen3moe.gguf")
        found = texts(server)

        def counted():
            now = hearthd.samples(httpx.get(server.url + "/metrics", timeout=hearthd.PATIENCE).text)
            return now if hearthd.total(now, "hearth_finished_sequences_total") == len(PROMPTS) else None
        return found, hearthd.wait_until(counted, "all answers in the metrics")

    def chosen(metrics, processor):
        return hearthd.total(metrics, "hearth_chosen_experts_total", processor=processor)

    expected, alone = answers("--device", "cpu")
    assert chosen(alone, "cpu") > 0 and chosen(alone, "gpu") == 0
    found, whole = answers("--device", "cuda")
    assert found == expected
    assert (chosen(whole, "gpu"), chosen(whole, "cpu")) == (chosen(alone, "cpu"), 0)
    experts = hearthd.total(whole, "hearth_memory_bytes", place="vram", purpose="experts")
    budget = hearthd.total(whole, "hearth_memory_bytes", place="vram") - experts / 2
    found, half = answers("--device", "cuda", "--vram-budget", f"{budget / 2**30:.9f}", "--verify", "on")
    assert found == expected
    assert hearthd.total(half, "hearth_verified_layers_total") > 0
    assert hearthd.total(half, "hearth_verification_mismatches_total") == 0
    assert chosen(half, "gpu") > 0 and chosen(half, "cpu") > 0
    assert chosen(half, "gpu") + chosen(half, "cpu") == chosen(alone, "cpu")


def test_the_trace_of_served_experts_is_the_cpus_wherever_the_experts_are(serve, tmp_path):
    """Also if all experts are on the GPU, which otherwise hands no choices over to the CPU."""
    def traced(name, *flags):
        """The bytes of the trace, and a budget for all of the model but half of its experts."""
        server = serve(*flags, "--expert-trace", tmp_path / name, *SMALL,
                       model=hearthd.ROOT / "tests/data/arch/qwen3moe.gguf")
        texts(server)
        now = hearthd.samples(httpx.get(server.url + "/metrics", timeout=hearthd.PATIENCE).text)
        budget = (hearthd.total(now, "hearth_memory_bytes", place="vram")
                  - hearthd.total(now, "hearth_memory_bytes", place="vram", purpose="experts") / 2)
        server.signal()
        assert server.wait() == 0
        return (tmp_path / name).read_bytes(), f"{budget / 2**30:.9f}"

    expected, _ = traced("cpu", "--device", "cpu")
    whole, budget = traced("whole", "--device", "cuda")
    half, _ = traced("half", "--device", "cuda", "--vram-budget", budget)
    assert whole == expected and half == expected


def test_a_budget_below_the_least_names_the_least():
    sentence = refused("--device", "cuda", "--vram-budget", "0.0002", *SMALL)
    assert re.search(r"need [0-9.]+ KB", sentence) and "--vram-budget" in sentence, sentence


def test_chat_and_predicted_neurons(serve, tmp_path):
    template = tmp_path / "short.jinja"
    template.write_text("{% for message in messages %}{{ message.content }}{% endfor %}")
    flags = ("--chat-template-file", template, "--sparsity", "predicted", *SMALL)
    answers = []
    for device in (["cpu"], ["cuda"]):
        server = serve("--device", *device, *flags, model=PREDICTED)
        answer = httpx.post(server.url + "/v1/chat/completions", timeout=hearthd.PATIENCE, json={
            "messages": [{"role": "user", "content": "Who?"}], "temperature": 0, "max_tokens": 8})
        assert answer.status_code == 200, answer.text
        answers.append(answer.json()["choices"][0]["message"]["content"])
    assert answers[0] == answers[1]


# ---- when things go wrong while loading ----

def test_the_log_says_what_multiplies_prompts(serve):
    flags = (*SMALL, "--sparsity", "dense", "--split", "layers", "--prompt-products", "fast")
    server = serve(*flags)
    assert device_of(server) == "CUDA emulated, prompts by cuBLASLt 13.1.0"
    assert texts(server) == texts(serve(*flags))
    server = serve(*flags, env={"CUDAEMU_CUBLASLT": "0"})
    assert device_of(server) == "CUDA emulated"
    assert "cuBLASLt cannot be loaded" in gpu_line(server, "--prompt-products fast")


def test_a_device_that_grants_less_vram_gets_a_smaller_plan(serve):
    server = serve("--device", "cuda", *SMALL, model=LARGER, env={"CUDAEMU_FAIL": "cudaMalloc:0:2"})
    assert re.search(r"does not grant the [0-9.]+ [KMG]B that were planned: planning "
                     r"for [0-9.]+ [KMG]B, [0-9.]+ [KMG]B less",
                     server.log()), server.log()
    assert "the whole model" not in gpu_line(server, "GPU: ")
    by_cpu = serve("--device", "cpu", *SMALL, model=LARGER)
    assert complete(server, "Once", 4).json()["choices"] == complete(by_cpu, "Once", 4).json()["choices"]


def test_less_free_vram_than_the_budget_is_reported(serve, texts_of_cpu):
    # 1 GiB was requested; other processes have left 300 MiB, some of which must stay free.
    server = serve("--device", "cuda", "--vram-budget", "1", *SMALL,
                   env={"CUDAEMU_VRAM_TAKEN_MB": str(8192 - 300)})
    assert re.search(r"the GPU has [0-9.]+ [KMG]B free, [0-9.]+ [KMG]B less than --vram-budget",
                     server.log()), server.log()
    assert texts(server) == texts_of_cpu


def test_memory_that_may_not_be_pinned_is_reported_and_serving_goes_on(serve, texts_of_cpu):
    server = serve("--device", "cuda", "--vram-budget", "0.00035", *SMALL,
                   env={"CUDAEMU_FAIL": "cudaHostRegister:0:2:999"})
    assert re.search(r"[0-9.]+ KB of cold neurons could not be page-locked .* slower.*ulimit -l unlimited",
                     server.log())
    assert texts(server) == texts_of_cpu


def test_as_many_layers_are_pinned_as_the_limit_allows(serve, texts_of_cpu):
    server = serve("--device", "cuda", "--vram-budget", "0.00035", *SMALL, env={"CUDAEMU_MEMLOCK_KB": "0"})
    assert re.search(r"[0-9.]+ KB of cold neurons could not be page-locked", server.log())
    assert texts(server) == texts_of_cpu


def test_no_free_vram_is_reported_in_a_sentence():
    sentence = refused("--device", "cuda", env={"CUDAEMU_FAIL": "cudaMalloc:0:2:1000"})
    assert "does not grant" in sentence, sentence


# ---- when things go wrong while serving ----

def stream_events(answer):
    return [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]


def ask_until_it_fails(server):
    """Requests more long answers, whole and streamed, than there are slots; the engine fails during them.
    Leaves out answers that arrived after the failure, or after the end of the process. A process that ends
    resets connections that it has not accepted yet, so each logged request must have an answer."""
    def ask(i):
        try:
            return complete(server, PROMPTS[i % 3], 40, stream=i % 2 == 0, ignore_eos=True)
        except (httpx.ConnectError, httpx.ReadError):
            return None

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [answer for answer in pool.map(ask, range(8)) if answer is not None]
    server.wait()
    assert server.log().count(" POST /v1/completions ") == len(answers), server.log()
    for late in [answer for answer in answers if answer.status_code == 503]:
        assert late.json()["error"]["code"] == "engine_failed"
    return [answer for answer in answers if answer.status_code != 503]


@pytest.mark.parametrize("fault", ["kernel:900:700", "cudaGraphLaunch:60:719", "copy:100:999",
                                   "cudaStreamSynchronize:100:700"])
def test_a_cuda_error_ends_all_requests_and_then_the_process(serve, fault):
    server = serve("--device", "cuda", *SMALL, env={"CUDAEMU_FAIL": fault})
    answers = ask_until_it_fails(server)
    n_broken = n_refused = 0
    for answer in answers:
        if answer.headers["content-type"].startswith("text/event-stream"):
            assert answer.status_code == 200
            events = stream_events(answer)
            if events[-1] == "[DONE]":
                continue  # it was complete before the failure
            assert "[DONE]" not in events
            error = json.loads(events[-1])["error"]
            n_broken += 1
        elif answer.status_code != 200:
            assert answer.status_code == 500
            assert answer.headers["x-should-retry"] == "false"
            error = answer.json()["error"]
            n_refused += 1
        else:
            continue
        assert error["code"] == "engine_failed" and "CUDA failed while" in error["message"], error
    assert n_broken >= 1 and n_refused >= 1
    assert server.wait() == 1
    lines = [line for line in server.lines if "the engine has failed" in line]
    assert len(lines) == 1 and "CUDA failed while" in lines[0], server.log()


def test_after_a_failure_health_tells_why_until_the_last_answer_is_out(serve, tmp_path):
    trace = tmp_path / "trace.json"
    server = serve("--device", "cuda", "--trace", trace, *SMALL, env={"CUDAEMU_FAIL": "kernel:900:700"})
    # A body that never arrives completely keeps its connection open, and with it the process for a while.
    with server.connect() as slow:
        slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert complete(server, PROMPTS[0], 40, ignore_eos=True).status_code == 500
        status, body = server.health()
        assert status == 503 and body["status"] == "failed" and "CUDA failed while" in body["reason"], body
        late = complete(server, PROMPTS[0], 1)
        assert late.status_code == 503 and late.json()["error"]["code"] == "engine_failed"
        assert "retry-after" in late.headers
        assert server.wait() == 1
    assert any(event["ph"] == "X" for event in json.loads(trace.read_text())["traceEvents"])


def test_the_trace_of_experts_has_all_tokens_before_a_failure(serve, tmp_path):
    trace = tmp_path / "experts.trace"
    server = serve("--device", "cuda", "--expert-trace", trace, *SMALL,
                   model=hearthd.ROOT / "tests/data/arch/qwen3moe.gguf",
                   env={"CUDAEMU_FAIL": "kernel:900:700"})
    assert complete(server, PROMPTS[0], 40, ignore_eos=True).status_code == 500
    assert server.wait() == 1
    [line] = [line for line in server.lines if "prompt_tokens=" in line]
    n_prompt, n_generated = (int(re.search(rf"{name}_tokens=(\d+)", line).group(1))
                             for name in ("prompt", "generated"))
    assert n_generated > 1
    assert f"expert trace tokens={n_prompt + n_generated - 1} sequences=1" in server.log()
    assert trace.exists()


def test_a_failure_while_draining_is_a_failure(serve):
    server = serve("--device", "cuda", *SMALL, env={"CUDAEMU_FAIL": "kernel:900:700"})
    with server.connect() as connection:
        body = json.dumps({"prompt": "a", "max_tokens": 50, "ignore_eos": True, "stream": True})
        connection.sendall(hearthd.post("/v1/completions", body))
        hearthd.read_until(connection, b"data: ")
        server.signal()
        rest = hearthd.read_all(connection)
    assert "engine_failed" in rest and "[DONE]" not in rest
    assert server.wait() == 1
