"""Measures the gaps between tokens of a stream, alone and while other clients send long prompts.

    tests/bench/token_gaps.py [MODEL [OPTION...]]     options of hearthd; the program is $HEARTH_BUILD_DIR's
                                                      (build/release)
"""
import json
import pathlib
import sys
import threading
import time

import httpx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
import hearthd  # noqa: E402

PROMPT_WORDS, TOKENS = 1200, 300


def gaps_of(server):
    """Seconds between the tokens of one stream, in ascending order."""
    arrivals = []
    body = {"prompt": "Once upon a time", "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True,
            "stream": True}
    with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=600) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                arrivals.append(time.monotonic())
                assert "error" not in json.loads(line[6:]), line
    return sorted(b - a for a, b in zip(arrivals, arrivals[1:]))


def send_prompts(server, stop, lengths, number):
    """Long prompts, one after the other, none of which shares its beginning with the prefix cache."""
    while not stop.is_set():
        prompt = f"{number} {len(lengths)} " + " ".join(f"word{(i * 7919 + len(lengths)) % 9973}"
                                                        for i in range(PROMPT_WORDS))
        answer = httpx.post(server.url + "/v1/completions", json={"prompt": prompt, "max_tokens": 1},
                            timeout=600)
        assert answer.status_code == 200, answer.text
        lengths.append(answer.json()["usage"]["prompt_tokens"])


def row(name, gaps):
    at = [gaps[int(share * (len(gaps) - 1))] * 1000 for share in (0.5, 0.95, 0.99, 1)]
    print(f"| {name} | " + " | ".join(f"{gap:.0f}" for gap in at) + " |", flush=True)


def main():
    model, options = (pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else hearthd.MODEL), sys.argv[2:]
    server = hearthd.Hearthd("--context", 8192, *options, model=model)
    print("| gaps in ms | median | 95 % | 99 % | longest |\n|---|---|---|---|---|")
    try:
        gaps_of(server)
        row("one stream alone", gaps_of(server))
        for n_clients in (1, 3):
            stop, lengths = threading.Event(), []
            threads = [threading.Thread(target=send_prompts, args=(server, stop, lengths, i))
                       for i in range(n_clients)]
            for thread in threads:
                thread.start()
            gaps = gaps_of(server)
            stop.set()
            for thread in threads:
                thread.join()
            row(f"beside {n_clients} client(s) with prompts of {sum(lengths) // len(lengths):,} tokens", gaps)
    finally:
        server.kill()


main()
