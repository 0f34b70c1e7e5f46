"""The document at /openapi.json: it is valid, and describes real answers. schemathesis searches for requests
that contradict it."""
import json
import os

import httpx
import jsonschema
import openapi_spec_validator
import pytest
import referencing
import referencing.jsonschema
import schemathesis
from hypothesis import HealthCheck, Phase, settings

from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (content_type_conformance, response_schema_conformance,
                                               status_code_conformance)

import hearthd
import small_model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
EXAMPLES = int(os.environ.get("HEARTH_API_EXAMPLES", 8))  # requests by schemathesis for each endpoint
HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="module")
def small():
    ranker = hearthd.ROOT / "tests/data/arch/bert-rank.gguf"  # for /v1/rerank
    server = hearthd.Hearthd("--slots", "4", "--embedding-model", ranker, model=small_model.path())
    yield server
    server.kill()


@pytest.fixture(scope="module")
def document(small):
    return httpx.get(small.url + "/openapi.json", timeout=hearthd.PATIENCE).json()


def follow(document, reference):
    node = document
    for name in reference.removeprefix("#/").split("/"):
        node = node[name]
    return node


def answer_schema(document, path, method, status):
    response = document["paths"][path][method]["responses"][str(status)]
    response = follow(document, response["$ref"]) if "$ref" in response else response
    return response["content"]["application/json"]["schema"]


def known_members(document, schema):
    """The members that a schema names for an object; None if it allows any."""
    if "$ref" in schema:
        return known_members(document, follow(document, schema["$ref"]))
    names = set(schema.get("properties", {}))
    for part in schema.get("allOf", []) + schema.get("anyOf", []):
        names |= set(known_members(document, part) or {})
    return names or None


def member_schema(document, schema, name):
    if "$ref" in schema:
        return member_schema(document, follow(document, schema["$ref"]), name)
    if name in schema.get("properties", {}):
        return schema["properties"][name]
    for part in schema.get("allOf", []) + schema.get("anyOf", []):
        if found := member_schema(document, part, name):
            return found
    return None


def item_schema(document, schema):
    if "$ref" in schema:
        return item_schema(document, follow(document, schema["$ref"]))
    return schema.get("items")


def undocumented(document, schema, value, place="answer"):
    """Members of an answer that the document does not describe."""
    if schema is None:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from undocumented(document, item_schema(document, schema), item, f"{place}[{index}]")
    if isinstance(value, dict) and (names := known_members(document, schema)):
        for name, inner in value.items():
            if name not in names:
                yield f"{place}.{name}"
            yield from undocumented(document, member_schema(document, schema, name), inner, f"{place}.{name}")


def check(document, path, method, status, body):
    check_schema(document, answer_schema(document, path, method, status), body)


def check_schema(document, schema, body):
    resource = referencing.Resource(document, referencing.jsonschema.DRAFT202012)
    registry = referencing.Registry().with_resource("urn:api", resource)
    # References in the schema point into the document.
    placed = json.loads(json.dumps(schema).replace('"#/', '"urn:api#/'))
    jsonschema.Draft202012Validator(placed, registry=registry).validate(body)
    assert not list(undocumented(document, schema, body))


def test_the_document_is_valid(document):
    openapi_spec_validator.validate(document)


def test_every_operation_has_an_id_of_its_own_a_summary_and_an_example_that_is_answered(small, document):
    ids = [operation["operationId"] for methods in document["paths"].values()
           for operation in methods.values()]
    assert len(ids) == len(set(ids))
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["summary"]
            # its example is not a file on this machine
            if "requestBody" not in operation or "{" in path or path == "/admin/model":
                continue
            example = operation["requestBody"]["content"]["application/json"]["example"]
            answer = httpx.post(small.url + path, json=example, timeout=hearthd.PATIENCE)
            assert answer.status_code == 200, (path, answer.text)


@pytest.mark.parametrize("path, body", [
    ("/v1/completions", {"prompt": "a", "max_tokens": 2}),
    ("/v1/completions", {"prompt": ["a", "b"], "max_tokens": 2, "logprobs": 2, "echo": True, "n": 2}),
    ("/v1/completions", {"prompt": "a", "suffix": "b", "max_tokens": 2}),
    ("/v1/chat/completions", {"messages": HELLO, "max_tokens": 2}),
    ("/v1/chat/completions", {"messages": HELLO, "max_tokens": 2, "logprobs": True, "top_logprobs": 2}),
    ("/v1/chat/completions",
     {"messages": HELLO, "max_tokens": 60, "tools": [TOOL], "tool_choice": "required"}),
    ("/completion", {"prompt": ["a", 5], "n_predict": 2, "n_probs": 2, "return_tokens": True}),
    ("/completion", {"prompt": "a", "n_predict": 2, "response_fields": ["content", "tokens_predicted"]}),
    ("/infill", {"input_prefix": "a", "input_suffix": "b", "n_predict": 2}),
    ("/tokenize", {"content": "é", "with_pieces": True}),
    ("/tokenize", {"content": "é"}),
    ("/tokenize", {"prompt": "é", "return_token_strs": True}),
    ("/tokenize", {"messages": HELLO}),
    ("/detokenize", {"tokens": [5, 6]}),
    ("/apply-template", {"messages": HELLO}),
    ("/v1/embeddings", {"input": ["near", "far"]}),
    ("/v1/embeddings", {"input": [[5, 6]], "encoding_format": "base64", "dimensions": 4}),
    ("/v1/rerank", {"query": "a", "documents": ["b", {"text": "c"}], "return_documents": True}),
    ("/v2/rerank", {"query": "a", "documents": ["b", "c"], "top_n": 1}),
    ("/v1/responses", {"input": "Hello", "max_output_tokens": 2, "metadata": {"a": "b"}}),
    ("/v1/responses", {"input": "Hello", "max_output_tokens": 60, "tool_choice": "required",
                       "tools": [{"type": "function", "name": "now",
                                  "parameters": {"type": "object", "properties": {}}}]}),
    ("/v1/responses/input_tokens", {"input": "Hello"}),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 2}),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 60, "tool_choice": {"type": "any"},
                      "tools": [{"name": "now", "input_schema": {"type": "object", "properties": {}}}]}),
    ("/v1/messages/count_tokens", {"messages": HELLO}),
    ("/api/chat", {"messages": HELLO, "stream": False, "options": {"num_predict": 2}, "logprobs": True,
                   "top_logprobs": 1}),
    ("/api/chat", {"messages": HELLO, "stream": False, "options": {"num_predict": 60}, "tools": [TOOL]}),
    ("/api/chat", {"messages": []}),
    ("/api/generate", {"prompt": "a", "stream": False, "options": {"num_predict": 2}}),
    ("/api/generate", {"prompt": "a", "suffix": "b", "stream": False, "options": {"num_predict": 2}}),
    ("/api/show", {"model": "small"}),
    ("/api/embed", {"input": ["near", "far"]}),
    ("/api/embeddings", {"prompt": "near"}),
])
def test_answers_are_as_the_document_says(small, document, path, body):
    answer = httpx.post(small.url + path, json=body, timeout=hearthd.PATIENCE)
    assert answer.status_code == 200, answer.text
    check(document, path, "post", 200, answer.json())


@pytest.mark.parametrize("path", ["/v1/models", "/props", "/slots", "/tokenizer_info", "/openapi.json",
                                  "/health", "/api/version", "/api/tags", "/api/ps"])
def test_facts_are_as_the_document_says(small, document, path):
    check(document, path, "get", 200, httpx.get(small.url + path, timeout=hearthd.PATIENCE).json())


def test_models_for_anthropics_clients_are_as_the_document_says(small, document):
    headers = {"anthropic-version": "2023-06-01"}
    for path, place, status in (("/v1/models", "", 200), ("/v1/models/{model}", "/small", 200),
                                ("/v1/models/{model}", "/none", 404)):
        answer = httpx.get(small.url + "/v1/models" + place, headers=headers, timeout=hearthd.PATIENCE)
        assert answer.status_code == status
        check_schema(document, answer_schema(document, path, "get", status)["anyOf"][1], answer.json())


def test_one_model_is_as_the_document_says(small, document):
    check(document, "/v1/models/{model}", "get", 200,
          httpx.get(small.url + "/v1/models/small", timeout=hearthd.PATIENCE).json())


def test_kept_responses_are_as_the_document_says(small, document):
    kept = httpx.post(small.url + "/v1/responses", json={"input": "Hello", "max_output_tokens": 2},
                      timeout=hearthd.PATIENCE).json()
    url = f"{small.url}/v1/responses/{kept['id']}"
    for path in ("", "/input_items"):
        check(document, "/v1/responses/{id}" + path, "get", 200,
              httpx.get(url + path, timeout=hearthd.PATIENCE).json())
    refused = httpx.post(url + "/cancel", timeout=hearthd.PATIENCE)
    assert refused.status_code == 400
    check(document, "/v1/responses/{id}/cancel", "post", 400, refused.json())
    check(document, "/v1/responses/{id}", "delete", 200, httpx.delete(url, timeout=hearthd.PATIENCE).json())
    check(document, "/v1/responses/{id}", "get", 404, httpx.get(url, timeout=hearthd.PATIENCE).json())


def test_errors_are_as_the_document_says(small, document):
    for path, methods in document["paths"].items():
        if "requestBody" not in methods.get("post", {}) or "{" in path:
            continue
        if path == "/admin/model":  # its model is a file
            check(document, path, "post", 400,
                  httpx.post(small.url + path, json={"model": "none"}, timeout=hearthd.PATIENCE).json())
            continue
        answer = httpx.post(small.url + path, content=b"[]", timeout=hearthd.PATIENCE)
        assert answer.status_code == 400, path
        check(document, path, "post", 400, answer.json())
        check(document, path, "post", 404,
              httpx.post(small.url + path, json={"model": "none"}, timeout=hearthd.PATIENCE).json())


def test_parts_of_streams_are_json_and_end_as_the_document_says(small):
    for path, body in (("/completion", {"prompt": "a", "n_predict": 3}),
                       ("/infill", {"input_prefix": "a", "n_predict": 3})):
        answer = httpx.post(small.url + path, json={**body, "stream": True}, timeout=hearthd.PATIENCE)
        parts = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line]
        assert [part["stop"] for part in parts] == [False] * (len(parts) - 1) + [True]


def test_events_of_the_page_are_as_the_document_says(small, document):
    kinds = {"event: model": "PageModel", "event: frame": "PageFrame"}
    with httpx.stream("GET", small.url + "/page/events", timeout=hearthd.PATIENCE) as answer:
        lines, fired = answer.iter_lines(), False
        while not fired:
            kind = next(lines)
            event = json.loads(next(lines).removeprefix("data: "))
            assert next(lines) == ""
            check_schema(document, {"$ref": f"#/components/schemas/{kinds[kind]}"}, event)
            fired = "fired" in event
            httpx.post(small.url + "/v1/completions",
                       json={"prompt": "a", "max_tokens": 200, "ignore_eos": True}, timeout=hearthd.PATIENCE)


# ---- requests that schemathesis makes of the document ----

API = schemathesis.openapi.from_path(str(hearthd.ROOT / "server/api/description/openapi.json"))
API = API.exclude(path="/page/events")  # it does not end
API.config.phases.coverage.enabled = EXAMPLES > 8  # hundreds of requests for each endpoint
LENGTHS = ("max_tokens", "max_completion_tokens", "n_predict", "max_output_tokens", "num_predict", "n",
           "best_of")


def tame(path, body):
    """Requests short answers, so that thousands of requests are quick."""
    if not isinstance(body, dict):
        return body
    if path.startswith("/api/") and isinstance(body.setdefault("options", {}), dict):
        body["options"]["num_predict"] = 3
    body.setdefault("max_output_tokens" if path.startswith("/v1/responses") else "max_tokens", 3)
    for name in LENGTHS:
        if isinstance(body.get(name), (int, float)) and body[name] > 3:
            body[name] = 3
    return body


@API.parametrize()
@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None,
          phases=[Phase.explicit, Phase.generate],
          suppress_health_check=list(HealthCheck))
def test_schemathesis_requests_are_answered_as_the_document_says(case, small):
    case.body = tame(case.path, case.body)
    answer = case.call(base_url=small.url, timeout=hearthd.PATIENCE)
    checks = [status_code_conformance, content_type_conformance, response_schema_conformance]
    if answer.status_code != 501:  # the document names the requests that are always refused
        checks.append(not_a_server_error)
    case.validate_response(answer, checks=checks)
