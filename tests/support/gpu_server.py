"""hearthd with a model, on the GPU and then on the CPU: the same requests, alone and together, and how fast they were.

    gpu_server.py HEARTHD MODEL GIB      prints one JSON object; exit code 1 if the answers differ. GIB: of VRAM

Only the standard library, for a machine without a network. Everything stays on 127.0.0.1.
"""
import concurrent.futures
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

N_TOKENS, N_TOGETHER = 24, 4
START_S = 240


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def request(port, prompt):
    """The text of an answer of N_TOKENS tokens; greedy, so that it is the same each time."""
    body = json.dumps({"prompt": prompt, "max_tokens": N_TOKENS, "temperature": 0, "ignore_eos": True}).encode()
    call = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(call, timeout=START_S) as answer:
        return json.load(answer)["choices"][0]["text"]


def wait_until_ready(process, port):
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    sys.exit(f"gpu_server.py: hearthd ended, or was not ready after {START_S} s")


def measure(hearthd, model, device, gib):
    port, begin = free_port(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [hearthd, "--model", model, "--device", device, "--port", str(port), "--slots", str(N_TOGETHER), "--context", "512",
             "--profile", "off", "--vram-budget", gib], stdout=sys.stderr, cwd=folder)
        try:
            wait_until_ready(process, port)
            texts = [request(port, "One")]
            start_s = time.monotonic() - begin
            begin = time.monotonic()
            texts.append(request(port, "Two"))
            alone = N_TOKENS / (time.monotonic() - begin)
            begin = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(N_TOGETHER) as pool:
                texts += pool.map(lambda i: request(port, f"Number {i}"), range(N_TOGETHER))
            together = N_TOGETHER * N_TOKENS / (time.monotonic() - begin)
        finally:
            process.terminate()
            process.wait(60)
    return {"texts": texts, "start_s": start_s, "alone_tokens_per_s": alone, "together_tokens_per_s": together}


def main(hearthd, model, gib):
    found = {device: measure(hearthd, model, device, gib) for device in ("cuda", "cpu")}
    found["same_answers"] = found["cuda"]["texts"] == found["cpu"]["texts"]
    print(json.dumps(found, indent=1))
    return 0 if found["same_answers"] else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
