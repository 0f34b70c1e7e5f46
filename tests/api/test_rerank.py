"""POST /v1/rerank with tiny models of each kind, compared with the scores that transformers gives."""
import math
import struct
import sys

import httpx
import pytest

import hearthd as daemon

ARCH = daemon.ROOT / "tests/data/arch"
sys.path.insert(0, str(ARCH))
from rank_texts import DOCUMENTS, QUERY  # noqa: E402

MODELS = ["bert-rank", "xlm-roberta-rank", "jina-bert-v2-rank", "modern-bert-rank", "qwen3-rank"]


def golden(name):
    """The logits of the documents."""
    data = (ARCH / f"{name}.scores").read_bytes()
    scores = struct.unpack(f"<{len(data) // 4}f", data)
    if len(scores) == len(DOCUMENTS):
        return list(scores)
    return [yes - no for yes, no in zip(scores[::2], scores[1::2])]


def post(server, path="/v1/rerank", **body):
    return httpx.post(server.url + path, json={"query": QUERY, "documents": DOCUMENTS, **body},
                      timeout=daemon.PATIENCE)


def results(server, **body):
    answer = post(server, **body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


@pytest.fixture(scope="module", params=MODELS)
def ranker(request):
    running = daemon.Hearthd("--prefill-chunk", "8", model=ARCH / f"{request.param}.gguf")
    running.golden = golden(request.param)
    yield running
    running.signal()
    assert running.wait() == 0, running.log()


def test_scores_are_those_of_transformers(ranker):
    logits = {one["index"]: one["relevance_score"] for one in results(ranker, raw_scores=True)}
    assert [logits[i] for i in range(len(DOCUMENTS))] == pytest.approx(ranker.golden, abs=1e-3)
    shares = [1 / (1 + math.exp(-logit)) for logit in ranker.golden]
    found = results(ranker)
    assert [one["relevance_score"] for one in found] == pytest.approx(sorted(shares, reverse=True), abs=1e-3)
    assert sorted(one["index"] for one in found) == list(range(len(DOCUMENTS)))
    assert all("document" not in one for one in found)


def test_a_document_has_one_score_alone_and_among_others(ranker):
    together = {one["index"]: one["relevance_score"] for one in results(ranker)}
    for i, document in enumerate(DOCUMENTS):
        assert results(ranker, documents=[{"text": document}])[0]["relevance_score"] == together[i]


def test_every_path_gives_the_same_answer(ranker):
    expected = post(ranker, top_n=2, return_documents=True).json()
    assert len(expected["results"]) == 2
    assert [DOCUMENTS[one["index"]] for one in expected["results"]] == [
        one["document"]["text"] for one in expected["results"]]
    assert expected["usage"]["prompt_tokens"] == expected["usage"]["total_tokens"] > len(DOCUMENTS)
    for path in ("/rerank", "/v2/rerank"):
        answer = post(ranker, path, top_n=2, return_documents=True).json()
        assert {**answer, "id": expected["id"]} == expected


def test_a_reranker_does_nothing_else(ranker):
    listed = httpx.get(ranker.url + "/v1/models", timeout=daemon.PATIENCE).json()["data"][0]
    assert listed["ranks"] is True and listed["generates"] is False and "embedding" not in listed
    assert "the model is a reranker: it serves /v1/rerank" in ranker.log()
    assert "/v1/rerank -d" in ranker.log()
    for path, body in (("/v1/embeddings", {"input": "a"}), ("/v1/completions", {"prompt": "a"}),
                       ("/api/embed", {"model": listed["id"], "input": "a"}),
                       ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})):
        answer = httpx.post(ranker.url + path, json=body, timeout=daemon.PATIENCE)
        assert answer.status_code == 400 and "/v1/rerank" in answer.text, answer.text


def test_a_pair_beyond_the_context_is_refused_or_cut(ranker):
    long = "a b c d e " * 60
    answer = post(ranker, documents=["a", long])
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert answer.json()["error"]["param"] == "documents[1]"
    assert len(results(ranker, documents=["a", long], truncate_prompt_tokens=-1)) == 2
    assert len(results(ranker, documents=["a", long], max_tokens_per_doc=5)) == 2


def test_a_text_cannot_become_a_control_token(ranker):
    plain, control = (results(ranker, documents=[text], raw_scores=True)[0]["relevance_score"]
                      for text in ("a b", "a [SEP] </s> b"))
    assert plain != control
    tokens = [post(ranker, documents=[text]).json()["usage"]["total_tokens"] for text in ("a b", "a </s> b")]
    assert tokens[1] - tokens[0] > 1


def test_a_model_that_generates_ranks_nothing(start):
    server = start(model=ARCH / "llama.gguf")
    answer = post(server)
    assert answer.status_code == 400
    assert "does not rank texts; load a reranker" in answer.json()["error"]["message"]


def test_a_reranker_beside_a_model_that_generates(start):
    server = start("--embedding-model", ARCH / "bert-rank.gguf", model=ARCH / "llama.gguf")
    assert len(results(server)) == len(DOCUMENTS)
    for path, body in (("/v1/completions", {"prompt": "a", "max_tokens": 2}),
                       ("/v1/embeddings", {"input": "a"})):
        answer = httpx.post(server.url + path, json=body, timeout=daemon.PATIENCE)
        assert answer.status_code == 200 and answer.json()["model"] == "llama", answer.text
    metrics = httpx.get(server.url + "/metrics", timeout=daemon.PATIENCE).text
    assert 'gen_ai_operation_name="rerank"' in metrics
