"""A short tests/soak.sh: under load of every kind, every promise holds, and a broken promise is reported."""
import dataclasses
import pathlib
import sys

import pytest

import small_model

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import soak

SECONDS, CLIENTS = 25, 40


def test_load_of_every_kind_breaks_no_promise():
    found, broken = soak.soak(SECONDS, CLIENTS, small_model.path(), 512)
    assert not broken, "\n".join([*broken, found])
    assert "| same seed |" in found


GOOD = soak.Sample(at=0, rss=200e6, fds=10, running=0, waiting=0, kv_used=0, generated=0)
RECORDS = [soak.Record(kind, 0.1, status=200, gaps=[0.01, 0.02]) for kind in soak.Requests.KINDS]
SAMPLES = [dataclasses.replace(GOOD, at=float(at), fds=50, running=4) for at in range(60)]


def test_the_table_has_a_line_for_each_kind():
    lines = soak.table(RECORDS, SAMPLES, GOOD, GOOD, 60).splitlines()
    assert len([line for line in lines if line.startswith("| ")]) == 2 + len(RECORDS)
    assert soak.broken_promises(RECORDS, SAMPLES, GOOD, GOOD) == []


@pytest.mark.parametrize("records, samples, after, said", [
    ([*RECORDS, soak.Record("chat_whole", 1, status=500, fault="/v1/chat/completions: 500")], SAMPLES, GOOD,
     "500"),
    (RECORDS, [dataclasses.replace(s, rss=s.rss + 1e6 * s.at) for s in SAMPLES], GOOD, "memory grew by 29"),
    (RECORDS, SAMPLES, dataclasses.replace(GOOD, fds=11), "11 descriptors are open"),
    (RECORDS, SAMPLES, dataclasses.replace(GOOD, running=1), "1 slots are taken"),
    (RECORDS, SAMPLES, dataclasses.replace(GOOD, kv_used=16), "16 tokens of KV memory"),
    (RECORDS[1:], SAMPLES, GOOD, "no answer of the kind chat_stream"),
])
def test_a_broken_promise_is_detected(records, samples, after, said):
    broken = soak.broken_promises(records, samples, GOOD, after)
    assert len(broken) == 1 and said in broken[0]


def stream(*events):
    return soak.Answer(200, "".join(f"data: {event}\n\n" for event in events), [], 0)


@pytest.mark.parametrize("path, events", [
    ("/v1/completions", ['{"choices":[{"finish_reason":"stop"}]}']),
    ("/v1/completions", ['{"choices":[{"finish_reason":null}]}', "[DONE]"]),
    ("/v1/completions", ['{"error":{"message":"x"}}', "[DONE]"]),
    ("/v1/completions", []),
    ("/v1/messages", ['{"type":"message_start"}']),
    ("/v1/responses", ['{"type":"response.created"}']),
    ("/api/chat", ['{"done":false}']),
])
def test_an_incomplete_stream_is_detected(path, events):
    assert soak.stream_fault(stream(*events), path)
    assert not soak.stream_fault(stream('{"choices":[{"finish_reason":"stop"}]}', "[DONE]"),
                                 "/v1/completions")
