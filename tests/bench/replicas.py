#!/usr/bin/env python3
"""Measures the gain of prefix affinity: conversations through docker/replicas' nginx as it is, and with
replicas chosen in turn.

  HEARTH_BUILD_DIR=build/release build/venv/bin/python tests/bench/replicas.py [--model FILE] [--rounds 2]

Starts hearthd N times and nginx on loopback. Each conversation has the same system text and grows by a
question and an answer a turn, as a chat frontend sends it. Prints a table: the share of prompt tokens from
the prefix cache, the time to the first token, and requests a second. Both ways take turns, so that a machine
that gets slower slows both.
"""
import argparse
import concurrent.futures
import json
import pathlib
import random
import statistics
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "api"), str(TESTS / "docker" / "replicas")]

import httpx  # noqa: E402

import hearthd  # noqa: E402
import nginx  # noqa: E402

WORDS = ("river", "stone", "lamp", "garden", "winter", "engine", "paper", "window", "market",
         "violin", "harbor", "copper", "letter",
         "meadow", "signal", "kitchen", "planet", "bridge", "candle", "forest")


def text(seed, n_words):
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(n_words))


def ask(http, url, messages, n_tokens):
    """(seconds to the first token, usage, answer) of a streamed chat."""
    begin, first, answer, usage = time.monotonic(), None, "", None
    body = {"messages": messages, "max_tokens": n_tokens, "temperature": 0, "ignore_eos": True,
            "stream": True, "stream_options": {"include_usage": True}}
    with http.stream("POST", url + "/v1/chat/completions", json=body) as stream:
        for line in stream.iter_lines():
            if not line.startswith("data: {"):
                continue
            data = json.loads(line[6:])
            usage = data.get("usage") or usage
            piece = data["choices"][0]["delta"].get("content") if data["choices"] else None
            if piece:
                first = first or time.monotonic() - begin
                answer += piece
    return first, usage, answer


def converse(arguments, url, number):
    """One conversation, turn after turn: a list of (turn, seconds to the first token, prompt tokens, cached
    tokens)."""
    messages, figures = [{"role": "system", "content": text("system", arguments.system_words)}], []
    with httpx.Client(timeout=600) as http:
        for turn in range(arguments.turns):
            messages.append({"role": "user", "content": text(f"{number} {turn}", arguments.words)})
            first, usage, answer = ask(http, url, messages, arguments.tokens)
            messages.append({"role": "assistant", "content": answer})
            figures.append((turn, first, usage["prompt_tokens"],
                            usage["prompt_tokens_details"]["cached_tokens"]))
    return figures


def run(arguments, affine):
    daemons, proxy = [], None
    with tempfile.TemporaryDirectory(prefix="hearth-replicas-") as folder:
        try:
            for _ in range(arguments.replicas):
                daemons.append(hearthd.Hearthd("--threads", arguments.threads,
                                               "--context", 4096, "--slots", 8, "--allowed-host", "*",
                                               "--device", "cpu", model=arguments.model))
            proxy = nginx.Nginx(folder, [one.port for one in daemons], slots=8)
            if not affine:
                lists = pathlib.Path(folder) / "replicas.conf"
                # nginx's default: replicas in turn
                lists.write_text(lists.read_text().replace("hash $conversation consistent;", ""))
                proxy.reload()
                time.sleep(1)
            begin = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(arguments.clients) as pool:
                figures = [one for conversation in pool.map(lambda i: converse(arguments, proxy.url, i),
                                                            range(arguments.conversations))
                           for one in conversation]
            return figures, time.monotonic() - begin
        finally:
            if proxy:
                proxy.stop()
            for one in daemons:
                one.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=hearthd.MODEL, type=pathlib.Path)
    parser.add_argument("--replicas", default=3, type=int)
    parser.add_argument("--threads", default=1, type=int, help="of each hearthd (%(default)s)")
    parser.add_argument("--conversations", default=8, type=int)
    parser.add_argument("--clients", default=3, type=int, help="conversations at once (%(default)s)")
    parser.add_argument("--turns", default=5, type=int)
    parser.add_argument("--system-words", default=150, type=int)
    parser.add_argument("--words", default=80, type=int, help="of each question (%(default)s)")
    parser.add_argument("--tokens", default=16, type=int, help="of each answer (%(default)s)")
    parser.add_argument("--rounds", default=2, type=int)
    arguments = parser.parse_args()
    found = {True: ([], 0.0), False: ([], 0.0)}
    for number in range(arguments.rounds):
        for affine in (True, False):
            print(f"round {number + 1} of {arguments.rounds}, {'by conversation' if affine else 'in turn'}",
                  file=sys.stderr, flush=True)
            figures, seconds = run(arguments, affine)
            found[affine] = (found[affine][0] + figures, found[affine][1] + seconds)
    print("| replicas are chosen | prompt tokens | from the cache | first token, p50 | p50 from the second "
          "turn on | p95 | requests/s |")
    print("|---|---|---|---|---|---|---|")
    for affine, name in ((True, "by conversation"), (False, "in turn")):
        figures, seconds = found[affine]
        first = sorted(one[1] for one in figures)
        later = [one[1] for one in figures if one[0] > 0]
        n_prompt, n_cached = sum(one[2] for one in figures), sum(one[3] for one in figures)
        print(f"| {name} | {n_prompt} | {n_cached / n_prompt:.0%} | {statistics.median(first):.2f} s | "
              f"{statistics.median(later):.2f} s | {first[int(len(first) * 0.95)]:.2f} s | "
              f"{len(figures) / seconds:.2f} |")


if __name__ == "__main__":
    main()
