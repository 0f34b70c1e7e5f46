"""hearthd pull, list, rm, show, and --model hf:, with a hub on loopback that cuts answers, sends wrong ones,
is slow and refuses requests."""
import collections
import hashlib
import json
import os
import pathlib
import pty
import resource
import shutil
import signal
import subprocess
import threading
import time

import gguf
import pytest

import gguf_edit
import hearthd
from hub import COMMIT, Hub

MODEL = hearthd.SMALL_MODEL.read_bytes()
FILE = "relu-5m-Q8_0.gguf"
TOKEN = "hf_secret_of_the_test"


def environment(store, hub, **more):
    base = {"HEARTH_MODELS": str(store), "HEARTH_ENDPOINT": hub.url if hub else "http://127.0.0.1:9",
            "HOME": str(store.parent)}
    return hearthd.clean_environment({**base, **more})


def command(store, hub, *arguments, **more):
    return subprocess.run([hearthd.BINARY, *map(str, arguments)], env=environment(store, hub, **more),
                          capture_output=True, text=True, timeout=hearthd.PATIENCE, stdin=subprocess.DEVNULL)


def pull(store, hub, what="hf:lab/model", *arguments, **more):
    return command(store, hub, "pull", what, *arguments, **more)


def begin_pull(store, hub, *arguments, what="hf:lab/model", **more):
    return subprocess.Popen([hearthd.BINARY, "pull", what, *arguments],
                            env=environment(store, hub), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **more)


def leftovers(store):
    """The files in the store other than models and their origins."""
    return sorted(str(path.relative_to(store)) for path in store.rglob("*")
                  if path.is_file() and not path.name.endswith((".gguf", ".origin"))
                  or ".partial" in path.parts)


def place(store, file=FILE):
    return store / "lab" / "model" / file


def whole(store, file=FILE, data=MODEL):
    return place(store, file).read_bytes() == data


@pytest.fixture()
def store(tmp_path):
    return tmp_path / "models"


@pytest.fixture()
def hubs():
    made = []

    def make(files=None, **options):
        made.append(Hub({FILE: MODEL} if files is None else files, **options))
        return made[-1]
    yield make
    for hub in made:
        hub.close()


# ---- success ----

def test_a_model_is_pulled_listed_shown_and_removed(store, hubs):
    hub = hubs(architecture="llama")
    done = pull(store, hub)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{place(store)}\n" and whole(store) and leftovers(store) == []
    assert hub.sent == len(MODEL) and len(hub.of("store")) == 1, "one stream, each byte once"
    origin = json.loads((place(store).parent / f".{FILE}.origin").read_text())
    assert origin["source"] == "hf:lab/model" and origin["commit"] == COMMIT
    assert origin["sha256"] == hashlib.sha256(MODEL).hexdigest()
    listed = command(store, hub, "list")
    assert "relu-5m-Q8_0" in listed.stdout and "5.3 MB" in listed.stdout and "hf:lab/model" in listed.stdout
    assert json.loads(command(store, hub, "list", "--json").stdout)[0]["complete"] is True
    for name in ("relu-5m-q8_0", "hf:lab/model", str(place(store))):
        shown = command(store, hub, "show", name, "--no-plan")
        assert (shown.returncode == 0 and "llama" in shown.stdout
                and "2,048 tokens" in shown.stdout), shown.stderr
    removed = command(store, hub, "rm", "relu-5m-Q8_0")
    assert removed.returncode == 0 and "removed" in removed.stdout and list(store.rglob("*")) == []
    assert command(store, hub, "rm", "relu-5m-Q8_0").returncode == 2


def test_a_present_model_is_loaded_again_only_if_the_hub_has_another(store, hubs):
    hub = hubs()
    assert pull(store, hub).returncode == 0
    again = pull(store, hub)
    assert again.returncode == 0 and "here already" in again.stderr and hub.sent == len(MODEL)
    other = hearthd.ROOT / "tests" / "data" / "relu" / "relu-5m-q4_0.powerinfer.gguf"
    newer = hubs({FILE: other.read_bytes()})
    assert pull(store, newer).returncode == 0 and whole(store, data=other.read_bytes())


def test_a_file_put_there_by_hand_is_used_if_it_is_the_same(store, hubs):
    hub = hubs()
    place(store).parent.mkdir(parents=True)
    place(store).write_bytes(MODEL)
    done = pull(store, hub)
    assert done.returncode == 0 and hub.sent == 0 and "comparing its checksum" in done.stderr


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    """The model in two parts: name -> bytes."""
    folder = tmp_path_factory.mktemp("split")
    n_tensors = len(gguf.GGUFReader(hearthd.SMALL_MODEL).tensors)
    gguf_edit.copy_with(hearthd.SMALL_MODEL, folder / "x-Q8_0.gguf", {}, split_max_tensors=n_tensors // 2 + 1)
    parts = {path.name: path.read_bytes() for path in folder.glob("*.gguf")}
    assert sorted(parts) == ["x-Q8_0-00001-of-00002.gguf", "x-Q8_0-00002-of-00002.gguf"]
    return parts


def test_all_parts_of_a_split_model_come_together(store, hubs, split):
    hub = hubs({**split, "x-Q4_0.gguf": MODEL})
    done = pull(store, hub, "hf:lab/model:q8_0")
    assert (done.returncode == 0
            and done.stdout == f"{place(store, 'x-Q8_0-00001-of-00002.gguf')}\n"), done.stderr
    assert all(whole(store, name, data) for name, data in split.items()) and leftovers(store) == []
    assert hub.sent == sum(map(len, split.values()))
    assert "4 layers" in command(store, hub, "show", "x-Q8_0", "--no-plan").stdout
    assert command(store, hub, "rm", "x-Q8_0").returncode == 0 and list(store.rglob("*")) == []


def test_a_bad_part_keeps_all_parts_of_a_split_model_out_of_place(store, hubs, split):
    name = "x-Q8_0-00002-of-00002.gguf"
    hub = hubs({**split, name: b"\0" * len(split[name])})
    done = pull(store, hub)
    assert done.returncode == 1 and "not a model" in done.stderr and "deleted" in done.stderr, done.stderr
    assert list(store.rglob("*")) == []


def test_quantizations_are_chosen_and_listed(store, hubs):
    hub = hubs({"x-Q8_0.gguf": MODEL, "x-Q5_K_M.gguf": MODEL, "mmproj-Q4_K_M.gguf": b"p",
                "imatrix-Q4_K_M.gguf": b"i"})
    assert pull(store, hub).returncode == 0 and whole(store, "x-Q5_K_M.gguf")
    missing = pull(store, hub, "hf:lab/model:Q4_K_M")
    assert missing.returncode == 1 and "no Q4_K_M" in missing.stderr and "Q8_0 (5.3 MB)" in missing.stderr


def test_urls_are_pulled_with_and_without_checksum(store, hubs):
    hub = hubs()
    url = f"{hub.store.url}/blob/{FILE}"
    done = pull(store, hub, url)
    assert done.returncode == 0, done.stderr
    path = pathlib.Path(done.stdout.strip())
    assert path.read_bytes() == MODEL and path.parent.name.startswith("127.0.0.1_")
    assert "here already" in pull(store, hub, url).stderr
    command(store, hub, "rm", url)
    right = hashlib.sha256(MODEL).hexdigest()
    assert pull(store, hub, url, "--sha256", right.upper()).returncode == 0
    command(store, hub, "rm", url)
    wrong = pull(store, hub, url, "--sha256", "0" * 64)
    assert (wrong.returncode == 1 and right in wrong.stderr and "deleted" in wrong.stderr
            and list(store.rglob("*.gguf")) == [])


def test_if_missing_contacts_no_server_for_a_model_that_is_here(store, hubs):
    hub = hubs()
    first = pull(store, hub, "hf:lab/model", "--if-missing")
    assert first.returncode == 0 and whole(store), first.stderr
    asked = len(hub.requests)
    again = pull(store, hub, "hf:lab/model", "--if-missing")
    assert ((again.returncode, again.stdout, again.stderr) == (0, first.stdout, "")
            and len(hub.requests) == asked)
    absent = pull(store, hub, "hf:lab/nothing", "--if-missing")
    assert absent.returncode == 1 and len(hub.requests) > asked


def test_known_names_are_shown_and_need_no_network(store):
    for arguments in (["pull"], ["list", "--known"]):
        shown = command(store, None, *arguments)
        assert shown.returncode == 0 and "smollm3-3b" in shown.stdout and "1.92 GB" in shown.stdout
        assert max(map(len, shown.stdout.splitlines())) <= 88  # few terminals are narrower
    known = json.loads(command(store, None, "list", "--known", "--json").stdout)
    table = (hearthd.ROOT / "docs/quickstart.md").read_text()
    architectures = (hearthd.ROOT / "docs/models.md").read_text()
    assert table.count("](https://huggingface.co/") == len(known)
    for model in known:
        repository, quantization = model["reference"].removeprefix("hf:").split(":")
        row = f"| `{model['name']}` | [{repository}](https://huggingface.co/{repository}) | {quantization} | "
        assert row + f"{model['gigabytes']:g} GB |" in table, model
        assert f"| `{model['architecture']}` |" in architectures, "Hearth does not run it"


def test_the_default_model_is_listed(tmp_path):
    """server/fetch-model.sh finds the model in the cache, and adds it to the pulled models, once."""
    name = "SmolLM2-135M-Instruct.Q4_1"
    kept = tmp_path / "hearth" / f"{name}.gguf"
    kept.parent.mkdir()
    kept.write_bytes(MODEL)
    settings = hearthd.clean_environment({"XDG_CACHE_HOME": str(tmp_path)})
    for _ in range(2):
        fetched = subprocess.run([hearthd.ROOT / "server/fetch-model.sh"], env=settings, text=True,
                                 capture_output=True, check=True, timeout=hearthd.PATIENCE)
        assert fetched.stdout == f"{kept}\n"
    listed = subprocess.run([hearthd.BINARY, "list"], env=settings, text=True, capture_output=True,
                            check=True, timeout=hearthd.PATIENCE)
    assert [line.split()[0] for line in listed.stdout.splitlines()[:2]] == ["NAME", name]


# ---- the token ----

@pytest.mark.parametrize("how", ["variable", "file", "kept"])
def test_the_token_goes_to_the_endpoint_and_nowhere_else(store, hubs, tmp_path, how):
    hub = hubs()
    file = tmp_path / ("token" if how != "kept" else ".cache/huggingface/token")
    file.parent.mkdir(parents=True, exist_ok=True)
    if how != "variable":
        file.write_text(TOKEN + "\n")
    more = {"HF_TOKEN": TOKEN} if how == "variable" else {}
    more["XDG_CACHE_HOME"] = str(tmp_path / ".cache")
    done = pull(store, hub, "hf:lab/model", *(["--token-file", file] if how == "file" else []), **more)
    assert done.returncode == 0, done.stderr
    assert (all(headers.get("Authorization") == f"Bearer {TOKEN}" for _, _, _, headers in hub.of("hub"))
            and hub.of("hub"))
    assert all("Authorization" not in headers for _, _, _, headers in hub.of("store")) and hub.of("store")
    assert TOKEN not in done.stdout + done.stderr
    assert TOKEN.encode() not in b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())


def test_a_url_elsewhere_gets_no_token(store, hubs):
    hub = hubs()
    assert pull(store, hub, f"{hub.store.url}/blob/{FILE}", HF_TOKEN=TOKEN).returncode == 0
    assert all("Authorization" not in headers for _, _, _, headers in hub.requests)


def test_a_token_file_that_would_not_be_read_is_refused(store, hubs, tmp_path):
    hub = hubs()
    (tmp_path / "token").write_text(TOKEN)
    refused = pull(store, hub, f"{hub.store.url}/blob/{FILE}", "--token-file", tmp_path / "token")
    assert refused.returncode == 2 and "--token-file is for" in refused.stderr and hub.requests == []
    (tmp_path / "loop").symlink_to("loop")  # a cache folder that cannot be entered contains no token
    assert pull(store, hub, XDG_CACHE_HOME=str(tmp_path / "loop")).returncode == 0


def test_refusals_of_the_hub_say_what_to_do(store, hubs):
    def gated(request):
        request.answer(403, b"", {"X-Error-Code": "GatedRepo"})
        return True
    hub = hubs(api_fault=gated)
    refused = pull(store, hub)
    assert refused.returncode == 1 and "accept the terms" in refused.stderr and len(hub.requests) == 1
    missing = pull(store, hub, "hf:lab/nothing")
    assert missing.returncode == 1 and "no such repository" in missing.stderr
    unknown = pull(store, hubs(architecture="mamba"))
    assert unknown.returncode == 1 and "mamba" in unknown.stderr and "--any-architecture" in unknown.stderr


# ---- faults ----

def every_tenth(handler):
    """Cuts each answer after a tenth of the file."""
    cut = handler.begin + len(MODEL) // 10
    handler.send_part(handler.begin, handler.end, cut_at=cut)
    return True


def test_cut_connections_resume_where_they_ended(store, hubs):
    hub = hubs(fault=every_tenth)
    done = pull(store, hub)
    assert done.returncode == 0 and whole(store), done.stderr
    assert hub.sent == len(MODEL)


def sometimes(faults):
    """Lets the first answers fail in different ways, and then succeeds."""
    left = collections.deque(faults)
    lock = threading.Lock()

    def fault(handler):
        with lock:
            one = left.popleft() if left else None
        return one is not None and one(handler)
    return fault


def status(code, **headers):
    def fault(handler):
        handler.answer(code, b"later", {name.replace("_", "-"): value for name, value in headers.items()})
        return True
    return fault


def wrong(**changed):
    def fault(handler):
        handler.send_part(handler.begin, handler.end, **changed)
        return True
    return fault


def shifted(handler):
    """Sends other bytes than were requested."""
    handler.send_part(0 if handler.begin else 1, handler.end)
    return True


def longer(handler):
    """Sends more than it says."""
    handler.send_part(handler.begin, handler.end, Content_Length=None,
                      Content_Range=f"bytes {handler.begin}-{handler.begin + 999}/{len(MODEL)}")
    return True


def after_a_cut(fault):
    """Faults of answers to a client that has the beginning."""
    return lambda handler: (every_tenth if handler.begin == 0 else fault)(handler)


def hang_up(handler):
    handler.cut()
    return True


@pytest.mark.parametrize("name, faults", [
    ("overload", [status(500), status(502), status(503), status(429)]),
    ("retry-after", [status(429, Retry_After="1")]),
    ("hang-up", [hang_up] * 4),
    ("shifted", [every_tenth] + [shifted] * 3),
    ("longer", [every_tenth] + [longer] * 3),
    ("no range said", [every_tenth] + [wrong(Content_Range=None)] * 3),
    ("half a range", [every_tenth] + [wrong(Content_Range="bytes 5-")] * 3),
    ("compressed", [every_tenth] + [wrong(Content_Encoding="gzip")] * 2),
    ("longer length", [every_tenth] + [wrong(Content_Length=10**9)] * 2),
    ("expired address", [every_tenth, status(403), status(403)]),
])
def test_transient_faults_are_survived(store, hubs, name, faults):
    hub = hubs(fault=sometimes(faults))
    done = pull(store, hub)
    assert done.returncode == 0 and whole(store) and leftovers(store) == [], done.stderr


def test_retry_after_is_respected(store, hubs):
    times = []

    def fault(handler):
        times.append(time.monotonic())
        return len(times) == 1 and status(429, Retry_After="2")(handler)
    done = pull(store, hubs(fault=fault))
    assert done.returncode == 0 and times[1] - times[0] >= 1.9
    assert "status 429; asking again in 2 s" in done.stderr


def test_a_server_that_wants_an_hour_is_left_alone(store, hubs):
    done = pull(store, hubs(fault=status(429, Retry_After="3600")))
    assert done.returncode == 1 and "3600 seconds" in done.stderr


@pytest.mark.parametrize("name, fault, said", [
    ("500", status(500), "status 500"),
    ("hang-up", hang_up, "kept"),
    ("shifted", after_a_cut(shifted), "was asked for bytes"),
    ("404", status(404), "no such"),
    ("total", after_a_cut(lambda handler: wrong(
        Content_Range=f"bytes {handler.begin}-{handler.end - 1}/{len(MODEL) + 1}")(handler)),
     "should have"),
])
def test_permanent_faults_end_in_a_sentence(store, hubs, name, fault, said):
    hub = hubs(fault=fault, redirects=name != "404")
    done = pull(store, hub, "hf:lab/model", "--retries", "1")
    assert done.returncode == 1 and said in done.stderr, done.stderr
    assert not place(store).exists() and done.stderr.count("\n") <= 8


@pytest.mark.parametrize("ranges", [True, False])
def test_an_empty_file_is_an_error_and_not_a_transient_fault(store, hubs, ranges):
    hub = hubs({FILE: b""}, ranges=ranges)
    done = pull(store, hub)
    assert done.returncode == 1 and "the file is empty" in done.stderr and leftovers(store) == []


def test_waiting_for_the_hub_is_reported(store, hubs):
    released = threading.Event()

    def slow(request):
        released.wait(hearthd.PATIENCE)
        return False
    hub = hubs(api_fault=slow)
    process = begin_pull(store, hub)
    try:
        assert "waiting for an answer of http://127.0.0.1" in process.stderr.readline()
    finally:
        released.set()
    assert process.wait(hearthd.PATIENCE) == 0 and whole(store)


def test_a_wrong_checksum_deletes_the_download(store, hubs):
    hub = hubs()
    hub.sha256[FILE] = "1" * 64
    done = pull(store, hub)
    assert done.returncode == 1 and "SHA-256" in done.stderr and "deleted" in done.stderr
    assert list(store.rglob("*")) == []


def test_a_file_that_changes_between_two_requests_is_loaded_anew(store, hubs):
    seen = []

    def fault(handler):
        with handler.hub.lock:
            seen.append(handler.begin)
        return len(seen) <= 3 and wrong(ETag='"old"', cut_at=handler.begin + len(MODEL) // 10)(handler)
    hub = hubs(fault=fault)
    done = pull(store, hub)
    assert done.returncode == 0 and whole(store) and "changed on the server" in done.stderr, done.stderr


def test_a_server_without_ranges_serves_too(store, hubs):
    hub = hubs(ranges=False)
    done = pull(store, hub)
    assert done.returncode == 0 and whole(store), done.stderr


def test_ranges_that_end_midway_cost_one_whole_pass_at_most(store, hubs):
    answers = []

    def fault(handler):
        answers.append(handler.begin)
        if len(answers) < 4:
            return every_tenth(handler)
        handler.hub.ranges = False
        handler.send_part(0, len(MODEL))
        return True
    hub = hubs(fault=fault)
    done = pull(store, hub)
    assert done.returncode == 0 and whole(store), done.stderr
    assert len(answers) == 4


def test_cuts_of_a_server_without_ranges_end_in_a_sentence(store, hubs):
    def fault(handler):
        handler.send_part(0, len(MODEL), cut_at=len(MODEL) // 2)
        return True
    done = pull(store, hubs(ranges=False, fault=fault), "hf:lab/model", "--retries", "2")
    assert done.returncode == 1 and "kept" in done.stderr


def test_an_answer_of_unknown_length_is_taken(store, hubs):
    def fault(handler):
        handler.send_part(0, len(MODEL), Content_Length=None)
        return True
    hub = hubs(ranges=False, fault=fault)
    done = pull(store, hub, f"{hub.store.url}/blob/{FILE}")
    assert done.returncode == 0 and pathlib.Path(done.stdout.strip()).read_bytes() == MODEL, done.stderr


def test_a_download_that_is_not_a_model_is_deleted(store, hubs):
    hub = hubs({"x-Q8_0.gguf": b"<html>Sign in</html>" * 1000})
    done = pull(store, hub)
    assert done.returncode == 1 and "not a model" in done.stderr and list(store.rglob("*.gguf")) == []


def test_redirects_without_end_and_to_files_are_refused(store, hubs):
    hub = hubs(api_fault=status(302, Location="/api/models/lab/model"))
    assert pull(store, hub, "hf:lab/model", "--retries", "1").returncode == 1
    hub = hubs(api_fault=status(302, Location="file:///etc/passwd"))
    refused = pull(store, hub)
    assert refused.returncode == 1 and "not followed" in refused.stderr


def test_being_offline_is_reported_in_a_sentence(store, hubs):
    asked = pull(store, None, "hf:lab/model", "--retries", "0")
    assert asked.returncode == 1 and "online" in asked.stderr and asked.stderr.count("\n") == 1
    told = pull(store, hubs(), "hf:lab/model", HF_HUB_OFFLINE="1")
    assert told.returncode == 1 and "HF_HUB_OFFLINE" in told.stderr


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}",
                                  b'{"siblings": [{"rfilename": "../../x-Q4_0.gguf"}]}', b"[" * 100000])
def test_malformed_answers_are_refused(store, hubs, body):
    def fault(request):
        request.answer(200, body)
        return True
    done = pull(store, hubs(api_fault=fault))
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr


# ---- stopping and continuing ----

def wait_for_bytes(hub, n):
    hearthd.wait_until(lambda: hub.sent >= n, "bytes to be sent")


def kept_bytes(store):
    """The number of bytes in unfinished files."""
    return sum(path.stat().st_size for path in store.glob(".partial/**/*.gguf"))


def interrupt(process, store, hub, number=signal.SIGINT, more_than=0):
    """Stops a pull that the hub holds once more bytes are there. Returns its output when nothing is being
    sent any more."""
    hearthd.wait_until(lambda: kept_bytes(store) > more_than, "bytes to be there")
    process.send_signal(number)
    _, said = process.communicate(timeout=hearthd.PATIENCE)
    hearthd.wait_until(lambda: hub.n_sending == 0, "the hub to notice that its client left")
    return said


def test_ctrl_c_keeps_what_is_there_and_nothing_is_loaded_twice(store, hubs):
    hub = hubs()
    hub.hold_at = len(MODEL) // 3
    process = begin_pull(store, hub)
    said = interrupt(process, store, hub)
    assert process.returncode == 130 and "are kept" in said, said
    assert not place(store).exists()
    listed = command(store, hub, "list").stdout
    assert "unfinished" in listed and "% there" in listed
    kept = kept_bytes(store)
    assert kept > 0
    hub.hold_at, hub.sent = None, 0
    done = pull(store, hub)
    assert done.returncode == 0 and whole(store)
    assert hub.sent == len(MODEL) - kept


def test_the_bytes_of_a_known_checksum_serve_whatever_address_they_have_now(store, hubs):
    """A new README gives a repository another commit, and so each file another address; a mirror has other
    addresses anyway."""
    first = hubs()
    first.hold_at = 2_000_000
    assert "are kept" in interrupt(begin_pull(store, first), store, first)
    kept = kept_bytes(store)
    first.commit = "f" * 40
    first.hold_at = first.sent + 1_000_000
    interrupt(begin_pull(store, first), store, first, more_than=kept)
    kept = kept_bytes(store)
    mirror = hubs()
    assert pull(store, mirror).returncode == 0 and whole(store)
    assert mirror.sent == len(MODEL) - kept


def test_kill_9_loses_nothing(store, hubs):
    hub = hubs()
    hub.hold_at = 1_000_000
    process = begin_pull(store, hub)
    interrupt(process, store, hub, signal.SIGKILL, more_than=500_000)
    kept = kept_bytes(store)
    hub.hold_at, hub.sent = None, 0
    done = pull(store, hub)
    assert done.returncode == 0 and whole(store) and hub.sent == len(MODEL) - kept


@pytest.mark.parametrize("damage", [b"", b"{", b'{"hearth_part":2}', None])
def test_a_damaged_state_or_file_costs_only_time(store, hubs, damage):
    hub = hubs()
    hub.hold_at = len(MODEL) // 2
    process = begin_pull(store, hub)
    interrupt(process, store, hub, signal.SIGTERM)
    assert process.returncode == 143
    partial = store / ".partial/lab/model" / FILE
    if damage is None:  # bytes that the state claims to have are wrong, as after a power cut
        with open(partial, "r+b") as file:
            file.write(b"\0" * 1_000_000)
    else:
        (partial.parent / (FILE + ".state")).write_bytes(damage)
    hub.hold_at = None
    done = pull(store, hub)
    assert done.returncode == 0 and whole(store), done.stderr


def test_a_url_is_resumed_only_if_the_server_can_say_that_it_is_the_same(store, hubs):
    for etag, resumes in (('"v1"', True), ('"v2"', False)):
        hub = hubs()
        hub.hold_at = len(MODEL) // 2
        url = f"{hub.store.url}/blob/{FILE}"
        interrupt(begin_pull(store, hub, what=url), store, hub)
        hub.hold_at, hub.sent, hub.etags[FILE] = None, 0, etag
        done = pull(store, hub, url)
        assert done.returncode == 0 and (hub.sent < len(MODEL)) == resumes, (etag, hub.sent, done.stderr)


def test_the_second_of_two_pulls_waits_and_loads_nothing(store, hubs):
    hub = hubs()
    hub.hold_at = 200_000
    first = begin_pull(store, hub)
    wait_for_bytes(hub, 200_000)
    second = begin_pull(store, hub)
    assert "another hearthd is pulling" in second.stderr.readline()
    hub.hold_at = None
    outputs = [process.communicate(timeout=hearthd.PATIENCE) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outputs
    assert "here already" in outputs[1][1]
    assert whole(store) and hub.sent == len(MODEL) and leftovers(store) == []


def test_the_second_pull_goes_on_if_the_first_is_killed(store, hubs):
    hub = hubs()
    hub.hold_at = 200_000
    first = begin_pull(store, hub)
    wait_for_bytes(hub, 200_000)
    second = begin_pull(store, hub)
    assert "another hearthd is pulling" in second.stderr.readline()
    first.kill()
    first.communicate()
    hub.hold_at = None
    second.communicate(timeout=hearthd.PATIENCE)
    assert second.returncode == 0 and whole(store)


# ---- disks ----

def test_a_file_size_limit_is_reported_and_leaves_no_partial_file(store, hubs):
    hub = hubs()
    process = begin_pull(store, hub,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000)))
    _, said = process.communicate(timeout=hearthd.PATIENCE)
    assert process.returncode == 1 and "no file of this size" in said, said
    assert hub.sent == 0 and list(store.rglob("*")) == []
    assert pull(store, hub).returncode == 0


@pytest.fixture()
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a small disk can only be mounted as root")
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True,
                          text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_found_before_anything_is_loaded(small_disk, hubs):
    hub = hubs()
    store = small_disk / "models"
    done = pull(store, hub)
    assert (done.returncode == 1 and "needs 5.3 MB more" in done.stderr
            and "free; make room" in done.stderr), done.stderr
    assert hub.sent == 0 and list(store.rglob("*")) == []


def test_a_disk_that_fills_up_during_a_url_of_unknown_length_ends_in_a_sentence(small_disk, hubs):
    def fault(handler):
        handler.send_part(0, len(MODEL), Content_Length=None)
        return True
    hub = hubs(ranges=False, fault=fault)
    store = small_disk / "models"
    done = pull(store, hub, f"{hub.store.url}/blob/{FILE}")
    assert done.returncode == 1 and "disk is full" in done.stderr, done.stderr
    assert [path for path in store.rglob("*.gguf") if ".partial" not in path.parts] == []
    assert command(store, hub, "rm", FILE).returncode == 0


def test_a_store_that_cannot_be_written_is_reported_in_a_sentence(tmp_path, hubs):
    (tmp_path / "file").write_text("")
    done = pull(tmp_path / "file" / "models", hubs())
    assert done.returncode == 1 and "is not a folder" in done.stderr and "--models" in done.stderr


# ---- what is shown ----

def test_an_obstacle_in_the_store_is_found_before_anything_is_loaded(store, hubs):
    hub = hubs()
    place(store).mkdir(parents=True)
    refused = pull(store, hub)
    assert refused.returncode == 1 and "not a plain file" in refused.stderr and hub.sent == 0
    shutil.rmtree(store)
    (store / "lab").mkdir(parents=True)
    (store / "lab" / "model").write_text("mine")
    refused = pull(store, hub)
    assert refused.returncode == 1 and "not a folder" in refused.stderr and hub.sent == 0
    assert (store / "lab" / "model").read_text() == "mine" and leftovers(store) == ["lab/model"]


def test_a_model_whose_origin_cannot_be_noted_is_still_usable(store, hubs):
    (place(store).parent / f".{FILE}.origin").mkdir(parents=True)
    done = pull(store, hubs())
    assert done.returncode == 0 and whole(store) and "its origin could not be noted" in done.stderr


def test_a_terminal_sees_one_line_with_rate_and_time_left(store, hubs):
    hub = hubs()
    hub.hold_at = 100_000
    master, slave = pty.openpty()
    process = subprocess.Popen([hearthd.BINARY, "pull", "hf:lab/model"], env=environment(store, hub),
                               stdout=subprocess.DEVNULL, stderr=slave, stdin=subprocess.DEVNULL)
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
        hub.hold_at += 500_000  # once per drawn line, so that lines are drawn while bytes arrive
    os.close(master)
    assert process.wait() == 0
    assert (b"\r\x1b[Krelu-5m-Q8_0: " in shown and b" %, " in shown and b"/s, " in shown
            and b" s left" in shown)


def test_commands_have_help_and_refuse_what_they_do_not_know(store):
    assert "hearthd COMMAND" in hearthd.run(["--help"]).stdout
    for name in ("pull", "list", "rm", "show"):
        shown = command(store, None, name, "--help")
        assert (shown.returncode == 0 and f"Usage: hearthd {name}" in shown.stdout
                and "Examples:" in shown.stdout)
    for arguments, said in (
            (["pul"], "did you mean pull"), (["no-such.gguf"], "there is no such file"),
            (["rm"], "needs NAME"),
            (["pull", "a", "b"], "unexpected argument 'b'"), (["list", "--jsn"], "did you mean --json"),
            (["pull", "x", "--retries", "101"], "from 0 to 100"), (["pull", "hf:a"], "OWNER/REPO"),
            (["pull", "no-such-name"], "not a known model"), (["show", "no-such-name"], "neither a file"),
            (["pull", "hf:a/b", "--sha256", "1"], "64 hexadecimal"),
            (["pull", "x", "--sha256"], "needs a value"),
            (["pull", "hf:a/b", "--endpoint", "nowhere"], "not the address of a hub")):
        refused = command(store, None, *arguments)
        assert refused.returncode == 2 and said in refused.stderr and refused.stderr.count("\n") == 1, (
            arguments, refused.stderr)


def test_names_in_a_store_are_shown_without_control_characters(store):
    """A folder may come from a stranger."""
    for folder in ("a", "b"):
        (store / folder).mkdir(parents=True)
        (store / folder / "x\x1b[31m.gguf").write_bytes(b"GGUF")
        (store / folder / ".x\x1b[31m.gguf.origin").write_text(
            json.dumps({"hearth_origin": 1, "source": "\x1b[32m", "pulled": "\x1b[33m"}))
    shown = command(store, None, "list")
    assert shown.returncode == 0 and "\x1b" not in shown.stdout and "x1b[33m" in shown.stdout
    several = command(store, None, "rm", "x\x1b[31m")
    assert (several.returncode == 2 and "the name of several models" in several.stderr
            and several.stderr.count("\x1b") == 0)


def test_show_says_whether_and_how_fast_a_model_would_run(store, tmp_path):
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    shown = command(store, None, "show", hearthd.SMALL_MODEL, "--context", "256", **cache)
    assert shown.returncode == 0, shown.stderr
    for line in ("file ", "model ", "tokenizer ", "license ", "fits       yes", "decode ", "RAM "):
        assert line.rstrip() in shown.stdout, shown.stdout
    described = json.loads(command(store, None, "show", hearthd.SMALL_MODEL, "--json", **cache).stdout)
    assert described["runs"] and described["fits"] and described["plan"]["best"]["decode_tokens_per_s"] > 0
    tight = command(store, None, "show", hearthd.SMALL_MODEL, "--ram-budget", "0.001", **cache)
    assert tight.returncode == 0 and "no: RAM of" in tight.stdout
    assert "experts" not in described and "\nexperts" not in shown.stdout
    nothing = tmp_path / "x.gguf"
    nothing.write_bytes(b"GGUF")
    assert command(store, None, "show", nothing).returncode != 0


@pytest.mark.parametrize("name", ["bert", "bert-rank"])
def test_show_describes_models_that_run_without_a_plan(name, store, tmp_path):
    """They run on the CPU only, so the planner refuses them."""
    model = hearthd.ROOT / f"tests/data/arch/{name}.gguf"
    shown = command(store, None, "show", model, "--json", XDG_CACHE_HOME=str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    described = json.loads(shown.stdout)
    assert described["runs"] and "plan" not in described and "why_not" not in described


@pytest.mark.parametrize("name, kind, n_layers", [("qwen35-nextn", "gated delta nets", 4),
                                                  ("lfm2", "short convolutions", 3),
                                                  ("nemotron_h_moe", "Mamba-2", 3)])
def test_show_names_recurrent_layers_and_those_that_predict(name, kind, n_layers, store):
    model = hearthd.ROOT / f"tests/data/arch/{name}.gguf"
    shown = command(store, None, "show", model, "--no-plan").stdout
    described = json.loads(command(store, None, "show", model, "--no-plan", "--json").stdout)
    assert described["recurrent"]["kind"] == kind and described["recurrent"]["layers"] == n_layers
    assert described["recurrent"]["state_bytes"] > 0
    line = f"recurrent  {kind} in {n_layers} of {described['layers']} layers; a sequence keeps a state of"
    assert line in shown
    predicts = name == "qwen35-nextn"
    assert ("drafts     1 layer (nextn) predicts a later token" in shown) == predicts
    assert ("predicting_layers" in described) == predicts
    if predicts:
        tensors = [one for one in gguf.GGUFReader(model).tensors if one.name.startswith("blk.5.")]
        n_bytes = sum(int(one.n_bytes) for one in tensors)
        assert described["predicting_layers"] == {"layers": 1, "bytes": n_bytes}


def test_show_says_what_the_experts_of_a_mixture_take(store):
    model = hearthd.ROOT / "tests/data/arch/qwen3moe.gguf"
    tensors = {one.name: one for one in gguf.GGUFReader(model).tensors}
    in_file = sum(int(one.n_bytes) for name, one in tensors.items() if "_exps.weight" in name)
    router = tensors["blk.0.ffn_gate_inp.weight"]
    experts = json.loads(command(store, None, "show", model, "--no-plan", "--json").stdout)["experts"]
    assert experts["of_a_layer"] == router.shape[1] and experts["of_a_token"] == 3
    assert experts["bytes"] == in_file
    assert experts["least_bytes"] * experts["of_a_layer"] * experts["layers"] == in_file
    assert experts["token_bytes"] == in_file * 3 // router.shape[1]
    line, = [line for line in command(store, None, "show", model, "--no-plan").stdout.splitlines()
             if line.startswith("experts ")]
    assert f"{100 * 3 / router.shape[1]:.1f} %" in line and f"in {experts['layers']} layers" in line


# ---- serving a pulled model ----

def test_a_start_pulls_once_and_needs_no_hub_afterward(store, hubs):
    hub = hubs()
    server = hearthd.Hearthd(model="hf:lab/model",
                             env={"HEARTH_MODELS": str(store), "HEARTH_ENDPOINT": hub.url})
    try:
        assert whole(store) and hub.sent == len(MODEL)
        used = command(store, hub, "rm", "relu-5m-Q8_0")
        assert used.returncode == 1 and "being served" in used.stderr and place(store).exists()
        n_lines = len(server.lines)
        server.signal(signal.SIGHUP)
        hearthd.wait_until(lambda: any("SIGHUP: reloaded" in line for line in server.lines[n_lines:]),
                           "the reload")
        assert not any("every option keeps its value" in line for line in server.lines)
    finally:
        server.signal(signal.SIGTERM)
        server.wait()
    n_requests = len(hub.requests)
    for name in ("hf:lab/model:Q8_0", "relu-5m-Q8_0"):
        again = hearthd.Hearthd(model=name, env={"HEARTH_MODELS": str(store), "HEARTH_ENDPOINT": hub.url})
        again.signal(signal.SIGTERM)
        assert again.wait() == 0
    assert len(hub.requests) == n_requests


def test_a_folder_of_a_models_name_hides_no_model(store, hubs, tmp_path, monkeypatch):
    hub = hubs()
    assert pull(store, hub).returncode == 0
    (tmp_path / "relu-5m-Q8_0").mkdir()
    monkeypatch.chdir(tmp_path)
    shown = command(store, None, "show", "relu-5m-Q8_0", "--no-plan")
    assert shown.returncode == 0 and "hf:lab/model" in shown.stdout, shown.stderr
    checked = command(store, None, "--check-config", "--model", "relu-5m-Q8_0")
    assert checked.returncode == 0, checked.stderr


def test_a_start_that_cannot_pull_ends_with_a_sentence(store, hubs):
    def start(model, **more):
        return command(store, None, "--port", "0", "--model", model, **more)
    # Exit code 1: a service manager may try again. Exit code 2: another try would end in the same way.
    # The host name is longer than DNS permits, so the test sends no query to a name server.
    away = start("hf:lab/model", HEARTH_ENDPOINT=f"http://{'a' * 64}.invalid")
    assert away.returncode == 1 and "online" in away.stderr
    nothing = start("hf:lab/other", HEARTH_ENDPOINT=hubs().url)
    assert nothing.returncode == 2 and "no such repository" in nothing.stderr
    offline = start("hf:lab/model", HF_HUB_OFFLINE="1")
    assert offline.returncode == 2 and "HF_HUB_OFFLINE" in offline.stderr
    unknown = start("no-such-name")
    assert unknown.returncode == 2 and "neither a file" in unknown.stderr
    checked = command(store, None, "--check-config", "--model", "hf:lab/model")
    assert checked.returncode == 2 and "hearthd pull hf:lab/model fetches it" in checked.stderr


def test_a_signal_during_the_pull_of_a_start_ends_it_in_good_order(store, hubs):
    hub = hubs()
    hub.hold_at = 200_000
    process = subprocess.Popen(
        [hearthd.BINARY, "--port", "0", "--model", "hf:lab/model"], env=environment(store, hub),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    wait_for_bytes(hub, 200_000)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=hearthd.PATIENCE)
    assert process.returncode == 143 and "are kept" in said, said


def test_a_server_with_a_file_never_asks_the_hub(store, hubs):
    hub = hubs()
    server = hearthd.Hearthd(model=hearthd.SMALL_MODEL,
                             env={"HEARTH_MODELS": str(store), "HEARTH_ENDPOINT": hub.url})
    server.signal(signal.SIGTERM)
    assert server.wait() == 0 and hub.requests == []
