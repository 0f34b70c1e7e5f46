"""system_fingerprint: servers with equal fingerprints give the same text, so every setting that changes
numbers changes it."""
import httpx
import pytest

import hearthd

POWERINFER = hearthd.ROOT / "tests/data/relu/relu-5m-q4_0.powerinfer.gguf"
SILU = hearthd.ROOT / "tests/data/arch/llama.gguf"


@pytest.fixture()
def fingerprint():
    def of(*flags, model=POWERINFER, **options):
        server = hearthd.Hearthd("--threads", "1", *flags, model=model, **options)
        try:
            answer = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                                json={"prompt": "The", "max_tokens": 1})
            assert answer.status_code == 200, answer.text
            return answer.json()["system_fingerprint"]
        finally:
            server.kill()

    return of


def test_the_fingerprint_changes_with_the_mode_of_the_ffn(fingerprint):
    exact = fingerprint()
    assert fingerprint("--sparsity", "exact") == exact
    others = [("--sparsity", "dense"), ("--sparsity", "predicted"),
              ("--sparsity", "predicted", "--predictor-threshold", "0.5")]
    found = [exact] + [fingerprint(*flags) for flags in others]
    assert len(set(found)) == len(found), found
    dense = [fingerprint("--sparsity", "dense", "--ffn-activation", name, model=SILU)
             for name in ("relu", "silu")]
    assert dense[0] != dense[1]


def test_the_fingerprint_changes_with_the_type_of_keys_and_values(fingerprint):
    halves = fingerprint()
    assert fingerprint("--kv-type", "f16") == halves
    assert fingerprint("--kv-type", "q8_0") != halves


def test_an_unused_threshold_does_not_change_the_fingerprint(fingerprint):
    assert fingerprint("--predictor-threshold", "0.5") == fingerprint()


@pytest.mark.skipif(not hearthd.EMULATED.exists(), reason="the emulated hearthd is not built")
def test_the_fingerprint_changes_with_what_multiplies_prompts(fingerprint):
    gpu = ("--device", "cuda", "--profile", "off", "--sparsity", "dense", "--context", "64")
    exact = fingerprint(*gpu, model=SILU, binary=hearthd.EMULATED)
    assert fingerprint(*gpu, "--prompt-products", "exact", model=SILU, binary=hearthd.EMULATED) == exact
    fast = fingerprint(*gpu, "--prompt-products", "fast", model=SILU, binary=hearthd.EMULATED)
    assert fast != exact
    # On the CPU, or without the library, it changes nothing.
    assert fingerprint("--prompt-products", "fast", model=SILU) == fingerprint(model=SILU)
    none = fingerprint(*gpu, "--prompt-products", "fast", model=SILU, binary=hearthd.EMULATED,
                       env={"CUDAEMU_CUBLASLT": "0"})
    assert none == exact
