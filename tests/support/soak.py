"""Many clients of many kinds use one hearthd for a time; then what docs/running.md promises is checked, and a
table printed.

    soak.py [SECONDS] [CLIENTS] [MODEL]   600, 64 and the default model; exit code 1 if a promise was broken
    soak.py --copies 3 --budget 1.5 ...   three copies of the model take turns in 1.5 GiB of memory

Called by tests/soak.sh, and for half a minute by tests/api/test_soak.py. Clients hold keys with eight names,
keep their connections, and come back after a 429. Their requests are drawn from fixed seeds; the answers, and
how long they take, depend on the machine. With several copies, each request names one of them.
"""
import argparse
import dataclasses
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))
import hearthd

N_KEYS = 8
SLOTS, QUEUE = 4, 32  # fewer places than clients, so that some get a 429
PATIENCE_S = 300  # how long a client waits for its next byte
WORDS = ("the a one two river house light old small great walks sees makes finds "
         "under over with and of to").split()
TOOL = {"type": "function", "function": {"name": "find", "description": "Finds a place", "parameters": {
    "type": "object", "required": ["place", "n"], "additionalProperties": False,
    "properties": {"place": {"enum": ["Paris", "Rome", "Oslo"]},
                   "n": {"type": "integer", "minimum": 0, "maximum": 99}}}}}
SCHEMA = {"type": "object", "required": ["color", "n"], "additionalProperties": False,
          "properties": {"color": {"enum": ["red", "green", "blue"]},
                         "n": {"type": "integer", "minimum": 0, "maximum": 99}}}


@dataclasses.dataclass
class Record:
    """One request, as its client saw it."""
    kind: str
    seconds: float
    status: int = 0
    fault: str = ""  # a description of the answer's fault, or empty
    left: bool = False  # the client left before the answer was complete, as intended
    compared: bool = False  # compared with the answer to the same request while nothing else ran
    gaps: list = dataclasses.field(default_factory=list)  # seconds between the events of a streamed chat


@dataclasses.dataclass
class Sample:
    """The metrics at one time, in seconds since the load began."""
    at: float
    rss: float
    fds: float
    running: float
    waiting: float
    kv_used: float
    generated: float
    peak: float = 0  # the most resident memory since the server began


class Answer:
    """Status and body of an answer; for a stream, its data and the time of each event."""

    def __init__(self, status, text, times, retry_after):
        self.status, self.text, self.times, self.retry_after = status, text, times, retry_after

    def events(self):
        return [line.removeprefix("data: ")
                for line in self.text.splitlines() if line.startswith(("data: ", "{"))]


class Client:
    """Keeps one connection at a time open from request to request."""

    def __init__(self, port, key):
        self.port, self.headers, self.connection = port, {"Authorization": f"Bearer {key}"}, None

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def ask(self, path, body=None, leave_after=None):
        """leave_after: the number of a stream's events after which the client leaves; 0: it leaves before it
        reads. A client that leaves gets None."""
        self.connection = self.connection or http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=PATIENCE_S)
        data = None if body is None else json.dumps(body)
        self.connection.request("GET" if body is None else "POST", path, data,
                                {**self.headers, "Content-Type": "application/json"})
        if leave_after == 0:
            time.sleep(0.05)  # by the clock: wherever the answer is then
            return self.close()
        answer = self.connection.getresponse()
        lines, times = [], []
        while line := answer.readline():
            lines.append(line.decode())
            if line.startswith((b"data: ", b"{")):
                times.append(time.monotonic())
                if leave_after is not None and len(times) >= leave_after:
                    return self.close()
        answer.close()
        if answer.will_close:
            self.close()
        return Answer(answer.status, "".join(lines), times, int(answer.headers.get("Retry-After", 0)))


def prompt(rng, n_words=12):
    return " ".join(rng.choice(WORDS) for _ in range(n_words))


def tokens(rng, n):
    """A prompt of n tokens; half of the prompts share a beginning that is in the prefix cache."""
    shared = n * 3 // 4 if rng.random() < 0.5 else 0
    return [300] * shared + [rng.randrange(300, 1500) for _ in range(n - shared)]


def chat(rng, **fields):
    return {"messages": [{"role": "user", "content": prompt(rng)}], "max_tokens": rng.randrange(4, 32),
            "temperature": 0.8, **fields}


def seeded(number):
    """The requests whose answers are compared with those given while nothing else ran: sampled, greedy, with
    a schema."""
    rng = random.Random(number)
    fields = [{"temperature": 1.0, "seed": number}, {"temperature": 0},
              {"temperature": 0.9, "seed": number,
               "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}}]
    return {**chat(rng), "max_tokens": 24, **fields[number % 3]}


N_SEEDED = 12


def text_of(answer):
    """The text of an answer of chat, streamed or whole."""
    if not answer.text.startswith("data: "):
        return json.loads(answer.text)["choices"][0]["message"]["content"]
    parts = [json.loads(event) for event in answer.events() if event != "[DONE]"]
    return "".join(choice["delta"].get("content") or "" for part in parts for choice in part["choices"])


def stream_fault(answer, path):
    """Returns what a stream lacks, or an empty string if it is complete. Each family of endpoints ends its
    streams differently."""
    events = answer.events()
    error = next((event for event in events if re.search(r'"error": ?["{]', event)), "")
    if error or not events:
        return f"an error: {error[:300]}" if error else "no event"
    if path.startswith("/api/"):
        return "" if json.loads(events[-1]).get("done") else "no done at the end"
    if path == "/v1/messages":
        return ("" if '"message_stop"' in events[-1] and '"stop_reason":"' in answer.text.replace(": ", ":")
                else "no message_stop at the end")
    if path == "/v1/responses":
        last = json.loads(events[-1])["type"]
        return "" if last in ("response.completed", "response.incomplete") else f"ends with {last}"
    if events[-1] != "[DONE]":
        return "no [DONE] at the end"
    return "" if re.search(r'"finish_reason": ?"', answer.text) else "no finish_reason"


def json_fault(text, finish_reason):
    """An answer with a schema is valid unless it was cut off."""
    if finish_reason == "length":
        return ""
    try:
        value = json.loads(text)
        return "" if 0 <= value["n"] <= 99 and len(value) == 2 else f"breaks its schema: {text}"
    except (ValueError, KeyError, TypeError):
        return f"no JSON of its schema: {text}"


class Requests:
    """Draws requests, sends them and judges the answers. context: the server's context in tokens. names: the
    models that requests name."""

    def __init__(self, context, alone, names):
        self.context, self.alone = context, alone  # alone: the texts of seeded(), by number
        self.names = names

    # Each method returns a path, a body (None: a GET) and a check, or None. The check examines an answer with
    # status 200, and returns a description of its fault, or "".
    def chat_stream(self, rng):
        return "/v1/chat/completions", chat(rng, stream=True), None

    def chat_whole(self, rng):
        return "/v1/chat/completions", chat(rng), None

    def completion_stream(self, rng):
        return "/v1/completions", {"prompt": prompt(rng), "max_tokens": rng.randrange(1, 32), "stream": True,
                                   "n": rng.choice([1, 1, 2])}, None

    def prompts(self, rng):
        def fault(answer):
            return "" if len(json.loads(answer.text)["choices"]) == 6 else "not an answer for each prompt"
        return "/v1/completions", {"prompt": [prompt(rng) for _ in range(6)], "max_tokens": 4}, fault

    def long_prompt(self, rng):
        n = rng.randrange(self.context // 3, self.context * 3 // 4)
        return "/v1/completions", {"prompt": tokens(rng, n), "max_tokens": 8, "stream": rng.random() < 0.5,
                                   "ignore_eos": True}, None

    def tool(self, rng):
        def fault(answer):
            choice = json.loads(answer.text)["choices"][0]
            calls = choice["message"].get("tool_calls") or [{}]
            if choice["finish_reason"] != "length" and not calls[0]:
                return "no call"
            return json_fault(calls[0]["function"]["arguments"], choice["finish_reason"]) if calls[0] else ""
        return "/v1/chat/completions", chat(rng, tools=[TOOL], tool_choice="required", max_tokens=96), fault

    def schema(self, rng):
        def fault(answer):
            choice = json.loads(answer.text)["choices"][0]
            return json_fault(choice["message"]["content"], choice["finish_reason"])
        form = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
        return "/v1/chat/completions", chat(rng, response_format=form, max_tokens=64), fault

    def other_families(self, rng):
        message = {"messages": [{"role": "user", "content": prompt(rng)}]}
        return rng.choice([("/v1/messages", {**message, "max_tokens": 12, "stream": True}, None),
                           ("/v1/responses", {"input": prompt(rng), "max_output_tokens": 16, "stream": True,
                                              "store": False}, None),
                           ("/api/chat", {**message, "options": {"num_predict": 12}}, None)])

    def embedding(self, rng):
        return "/v1/embeddings", {"input": [prompt(rng, 20) for _ in range(rng.randrange(1, 4))]}, None

    def list(self, rng):
        return rng.choice(["/v1/models", "/health"]), None, None

    def same_seed(self, rng):
        number = rng.randrange(N_SEEDED)

        def fault(answer):
            text = text_of(answer)
            return ("" if text == self.alone[number]
                    else f"seed {number}: {text!r}, alone {self.alone[number]!r}")
        return "/v1/chat/completions", {**seeded(number), "stream": rng.random() < 0.5}, fault

    def leave(self, rng):
        """A client that leaves while it waits, or within a stream."""
        return rng.choice([self.chat_stream, self.chat_whole, self.long_prompt, self.completion_stream])(rng)

    KINDS = {"chat_stream": 5, "chat_whole": 3, "completion_stream": 3, "prompts": 1,
             "long_prompt": 1, "tool": 2, "schema": 2,
             "other_families": 3, "embedding": 2, "list": 2, "same_seed": 3, "leave": 3}

    def run(self, client, rng, kind):
        """Sends one request. Returns its record, and for how many seconds the server tells the client to stay
        away."""
        path, body, further = getattr(self, kind)(rng)
        if body is not None:
            body = {**body, "model": rng.choice(self.names)}
        streams = bool(body) and (body.get("stream") or path.startswith("/api/"))
        leave_after = None if kind != "leave" else rng.randrange(4) if streams else 0
        begin = time.monotonic()
        try:
            answer = client.ask(path, body, leave_after)
        except (OSError, http.client.HTTPException) as error:
            client.close()
            return Record(kind, time.monotonic() - begin, fault=f"{path}: {error!r}"), 0
        record = Record(kind, time.monotonic() - begin)
        if answer is None:
            record.left = True
            return record, 0
        record.status = answer.status
        if answer.status == 429:
            return record, min(answer.retry_after, 2)
        if answer.status != 200:
            record.fault = f"{path}: {answer.status} {answer.text[:300]}"
        else:
            try:
                record.fault = ((stream_fault(answer, path) if streams else "")
                                or (further(answer) if further else ""))
            # the answer has another shape than expected
            except (ValueError, LookupError, TypeError) as error:
                record.fault = f"{path}: {error!r} in {answer.text[:300]}"
            record.compared = kind == "same_seed"
            # Leave out the first event, which has the role, and the last two, which have the end of the
            # answer. Measure one choice only, because others may have to wait for a slot.
            times = answer.times[1:-2] if kind == "chat_stream" else []
            record.gaps = [b - a for a, b in zip(times, times[1:])]
        return record, 0


def scrape(server, at):
    client = Client(server.port, "soak-key-0")
    text = client.ask("/metrics").text
    client.close()

    def value(name):
        return sum(float(line.split()[-1]) for line in text.splitlines() if re.match(name + r"[ {]", line) and
                   (name != "hearth_kv_tokens" or 'state="used"' in line))
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    peak = 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
    return Sample(at, value("process_resident_memory_bytes"), value("process_open_fds"),
                  value("hearth_running_sequences"), value("hearth_waiting_requests"),
                  value("hearth_kv_tokens"), value("hearth_generated_tokens_total"), peak)


def growth(samples, value):
    """The growth of a value over the second half of the samples, by the least-squares line through them."""
    half = [s for s in samples if s.at >= samples[-1].at / 2]
    if len(half) < 3:
        return 0
    slope, _ = statistics.linear_regression([s.at for s in half], [value(s) for s in half])
    return slope * (half[-1].at - half[0].at)


def broken_promises(records, samples, before, after, budget=None):
    """Sentences, one for each promise that was broken. before, after: samples while nothing ran. budget: the
    bytes of memory that all models share, or None for one model, whose memory must not grow."""
    broken = [f"{record.kind}: {record.fault}" for record in records if record.fault]
    grown = growth(samples, lambda s: s.rss)
    if budget is None and grown > max(16e6, 0.04 * before.rss):
        broken.append(f"resident memory grew by {grown / 1e6:.1f} MB over the second half")
    if budget is not None and after.peak > budget:
        broken.append(f"resident memory reached {after.peak / 1e6:.1f} MB; the budget is "
                      f"{budget / 1e6:.1f} MB")
    if after.fds > before.fds:
        broken.append(
            f"{after.fds:.0f} descriptors are open at the end, {before.fds:.0f} were at the beginning")
    if after.running or after.waiting or after.kv_used:
        broken.append(f"at the end {after.running:.0f} slots are taken, {after.waiting:.0f} requests wait "
                      f"and {after.kv_used:.0f} tokens of KV memory are used")
    unasked = [kind for kind in Requests.KINDS
               if not any(r.kind == kind and (r.status == 200 or r.left) for r in records)]
    return broken + [f"no answer of the kind {kind} came" for kind in unasked]


def quantiles(values):
    """p50, p95 and p99."""
    cuts = statistics.quantiles(values, n=100) if len(values) > 1 else [*values, 0] * 50
    return cuts[49], cuts[94], cuts[98]


def table(records, samples, before, after, seconds, budget=None):
    lines = ["| kind | requests | whole | left | 429 | p50 | p95 | p99 |",
             "|---|---|---|---|---|---|---|---|"]
    for kind in [*Requests.KINDS, "all"]:
        mine = [r for r in records if kind in (r.kind, "all")]
        whole = [r.seconds for r in mine if r.status == 200]
        p = ["%.2f s" % q for q in quantiles(whole)] if whole else [""] * 3
        lines.append(f"| {kind.replace('_', ' ')} | {len(mine)} | {len(whole)} | {sum(r.left for r in mine)} "
                     f"| {sum(r.status == 429 for r in mine)} | {p[0]} | {p[1]} | {p[2]} |")
    gaps = [gap for r in records for gap in r.gaps]
    p50, p95, p99 = quantiles(gaps)
    # The counters of a model begin again when it is loaded again.
    counts = [s.generated for s in [before, *samples, after]]
    generated = sum(max(0, b - a) for a, b in zip(counts, counts[1:]))
    middle = min(samples, key=lambda s: abs(s.at - samples[-1].at / 2))
    mb = lambda s: f"{s.rss / 1e6:.1f} MB"
    of_budget = "" if budget is None else f" of a budget of {budget / 1e6:.1f} MB"
    lines += [
        "", f"- Tokens: {generated:.0f}, {generated / seconds:.1f} a second. Gaps between the tokens of "
            f"streamed chats: p50 {p50 * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, "
            f"longest {max(gaps) * 1000:.0f} ms.",
        f"- Resident memory: {mb(before)} before, {mb(middle)} half way, {mb(samples[-1])} at the end of the "
        f"load, {mb(after)} after it; {growth(samples, lambda s: s.rss) / 1e6:+.1f} MB over the second half.",
        f"- Descriptors: {before.fds:.0f} before, "
        f"{max(s.fds for s in samples):.0f} at most, {after.fds:.0f} after.",
        f"- Most resident memory: {after.peak / 1e6:.1f} MB{of_budget}.",
        f"- After it: {after.running:.0f} slots taken, {after.waiting:.0f} requests waiting, "
        f"{after.kv_used:.0f} tokens of KV memory used.",
        f"- Answers compared with those of the same seed alone: {sum(r.compared for r in records)}."]
    return "\n".join(lines)


def load(server, names, context, seconds, n_clients):
    """Returns records and samples of the load, and the samples before and after it."""
    alone, client = {}, Client(server.port, "soak-key-0")
    for number in range(N_SEEDED):
        # copies of a model give the same answers
        asked = {**seeded(number), "model": names[number % len(names)]}
        alone[number] = text_of(client.ask("/v1/chat/completions", asked))
    client.close()
    requests, records, samples = Requests(context, alone, names), [], []
    time.sleep(1)  # by the clock: an idle engine reports that at least once a second
    before = scrape(server, 0)
    begin = time.monotonic()

    def use(number):
        rng, client = random.Random(number), Client(server.port, f"soak-key-{number % N_KEYS}")
        kinds = list(Requests.KINDS)
        # repeat the first request until it is answered, so that every kind is answered even on a slow machine
        first = kinds[number % len(kinds)]
        while time.monotonic() - begin < seconds or first:
            record, stay_away = requests.run(client, rng,
                                             first or rng.choices(kinds, Requests.KINDS.values())[0])
            records.append(record)
            first = first if record.status == 429 else None
            if rng.random() < 0.1:
                client.close()
            time.sleep(stay_away * (0.5 + rng.random()))
        client.close()

    clients = [threading.Thread(target=use, args=[number]) for number in range(n_clients)]
    for one in clients:
        one.start()
    while time.monotonic() - begin < seconds:
        samples.append(scrape(server, time.monotonic() - begin))
        time.sleep(min(1.0, seconds / 60))
    for one in clients:
        one.join()
    for _ in range(60):  # the server notices closed connections soon, not at once
        time.sleep(1)  # by the clock: until nothing is left, for a minute at most
        after = scrape(server, seconds)
        if after.fds <= before.fds and not (after.running or after.waiting or after.kv_used):
            break
    return records, samples, before, after


def soak(seconds, n_clients, model, context, *flags, copies=1, budget_gib=None):
    """Returns the table and the sentences on broken promises. copies: of the model; they share the budget."""
    with tempfile.TemporaryDirectory(prefix="hearth-soak-") as folder:
        keys = pathlib.Path(folder) / "keys"
        keys.write_text("".join(f"name=n{i} role=use,metrics key=soak-key-{i}\n" for i in range(N_KEYS)))
        names, models, budget = ["m"], {"model": model}, None
        if copies == 1:
            flags = ("--alias", "m", *flags)
        else:
            names, models = [f"m{i}" for i in range(copies)], {"model": None}
            for name in names:
                shutil.copy(model, pathlib.Path(folder) / f"{name}.gguf")
            flags = ("--models-folder", folder, "--ram-budget", budget_gib, *flags)
            budget = float(budget_gib) * 2**30
        # One KV context for each slot, so that the second half of the load begins with all of the pool
        # touched.
        server = hearthd.Hearthd("--slots", SLOTS, "--queue", QUEUE,
                                 "--context", context, "--kv-contexts", SLOTS,
                                 "--api-key-file", keys, *flags, **models)
        try:
            found = load(server, names, context, seconds, n_clients)
            server.signal(signal.SIGTERM)
            code = server.wait()
        finally:
            server.kill()
    broken = broken_promises(*found, budget)
    broken += [f"the exit code is {code}"] * (code != 0)
    broken += [line for line in server.lines if re.match(r"\S+ \S+ error ", line)]
    text = table(*found, seconds, budget)
    if copies > 1:
        n_loads = sum(" unloaded " in line for line in server.lines)
        text += f"\n- Models that made room for another: {n_loads}."
    return text, broken


def main():
    parser = argparse.ArgumentParser(prog="soak.py")
    parser.add_argument("seconds", type=int, nargs="?", default=600)
    parser.add_argument("clients", type=int, nargs="?", default=64)
    parser.add_argument("model", type=pathlib.Path, nargs="?", default=hearthd.MODEL)
    parser.add_argument("--copies", type=int, default=1, help="copies of the model that are served")
    parser.add_argument("--budget", help="GiB of memory for all copies")
    options = parser.parse_args()
    if (options.copies > 1) != (options.budget is not None):
        parser.error("--copies and --budget belong together")
    if not options.model.exists():
        sys.exit(f"soak.py: {options.model} is not there: server/fetch-model.sh fetches it")
    print(f"{options.seconds} s, {options.clients} clients with {N_KEYS} keys, {SLOTS} slots, a queue of "
          f"{QUEUE}, {options.model.stem}, {os.cpu_count()} cores\n", flush=True)
    found, broken = soak(options.seconds, options.clients, options.model, 1024, copies=options.copies,
                         budget_gib=options.budget)
    print(found)
    print("\n".join(["", f"{len(broken)} broken promises:", *broken[:40]]) if broken
          else "\nEvery promise held.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
