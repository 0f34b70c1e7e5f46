"""The sampler compared with a numpy implementation of the definitions in engine/sampling/sampling_params.h:
thousands of random requests, with every setting alone and combined, draw the same tokens. HEARTH_BUILD_DIR
locates the tool. Run by tests/run.sh.
"""
import json
import os
import pathlib
import random
import subprocess

import numpy as np
import pytest

BUILD = os.environ.get("HEARTH_BUILD_DIR")
TOOL = pathlib.Path(BUILD or ".") / "tests" / "sample_tool"
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")
MASK = (1 << 64) - 1


def mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def uniform_at(seed, index):
    golden = 0x9E3779B97F4A7C15
    stream = mix((seed + golden) & MASK)
    return (mix((mix(stream ^ (index * golden & MASK)) + golden) & MASK) >> 11) / 2.0**53


def dry_penalties(p, tokens):
    """Follows the definition: for each earlier position, the length of the repetition of the text's end that
    it would extend."""
    if p.get("dry_multiplier", 0) <= 0:
        return {}
    breakers = set(p.get("breakers", []))
    last_n = p.get("dry_last_n", -1)
    text = tokens if last_n < 0 else tokens[len(tokens) - min(last_n, len(tokens)):]
    longest = {}
    for i in range(len(text) - 1):
        n = 0
        while n <= i and text[i - n] == text[len(text) - 1 - n] and text[i - n] not in breakers:
            n += 1
        following = text[i + 1]
        if n >= max(1, p.get("dry_allowed_length", 2)) and following not in breakers:
            longest[following] = max(longest.get(following, 0), n)
    return {token: min(p["dry_multiplier"] * p.get("dry_base", 1.75) ** (n - p.get("dry_allowed_length", 2)),
                       1e6)
            for token, n in longest.items()}


def adjusted(row, case, tokens):
    p, logits = case["params"], np.array(row, np.float32)
    for token, bias in p.get("logit_bias", []):
        logits[token] = -np.inf if bias <= -100 else logits[token] + np.float32(bias)
    if "allowed" in case:
        logits[[t for t in range(len(logits)) if t not in set(case["allowed"])]] = -np.inf
    logits[case["banned"]] = -np.inf
    generated = tokens[case["n_prompt"]:]
    last_n = p.get("repetition_last_n", -1)
    seen = set(tokens if last_n < 0 else tokens[max(0, len(tokens) - last_n):])
    for token in set(tokens):
        penalty = np.float32(p.get("repetition_penalty", 1) if token in seen else 1)
        logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
        count = generated.count(token)
        logits[token] -= np.float32(p.get("presence_penalty", 0)) if count else 0
        logits[token] -= np.float32(p.get("frequency_penalty", 0)) * np.float32(count)
    for token, penalty in dry_penalties(p, tokens).items():
        logits[token] -= np.float32(penalty)
    return logits.astype(np.float64)


def temperature_of(p, logits):
    base, spread = p.get("temperature", 1.0), p.get("dynatemp_range", 0.0)
    if spread <= 0:
        return base
    finite = logits[np.isfinite(logits)]
    share = np.exp(finite - finite.max())
    share /= share.sum()
    entropy = -(share[share > 0] * np.log(share[share > 0])).sum()
    hesitation = min(max(entropy / np.log(len(finite)), 0), 1) if len(finite) > 1 else 0
    low, high = max(0, base - spread), base + spread
    return max(low + (high - low) * hesitation ** p.get("dynatemp_exponent", 1.0), 1e-4)


def first_of_mass(weights, share):
    mass, n = 0.0, 0
    while n < len(weights) and (n == 0 or mass < share * weights.sum()):
        mass, n = mass + weights[n], n + 1
    return n


def filtered(p, ids, w, seed, index):
    """The candidates, in the order in which the draw goes through them."""
    by_weight = lambda: sorted(range(len(ids)), key=lambda i: (-w[i], ids[i]))
    if p.get("top_k", 0) > 0 and p["top_k"] < len(ids):
        order = by_weight()[:p["top_k"]]
        ids, w = ids[order], w[order]
    if p.get("typical_p", 1) < 1:
        surprise = -np.log(np.maximum(w, 1e-300) / w.sum())
        entropy = (w / w.sum() * np.where(w > 0, surprise, 0)).sum()
        surprise = np.where(w > 0, surprise, np.inf)
        order = sorted(range(len(ids)), key=lambda i: (abs(surprise[i] - entropy), -w[i], ids[i]))
        ids, w = ids[order], w[order]
        n = first_of_mass(w, p["typical_p"])
        ids, w = ids[:n], w[:n]
        order = by_weight()
        ids, w = ids[order], w[order]
    if p.get("top_p", 1) < 1:
        order = by_weight()
        ids, w = ids[order], w[order]
        n = first_of_mass(w, p["top_p"])
        ids, w = ids[:n], w[:n]
    if p.get("min_p", 0) > 0:
        kept = w >= p["min_p"] * w.max()
        ids, w = ids[kept], w[kept]
    if uniform_at(~seed & MASK, index) < p.get("xtc_probability", 0):
        top = [i for i in by_weight() if w[i] >= p.get("xtc_threshold", 0.1) * w.sum()]
        gone = set(top[:-1])
        kept = [i for i in range(len(ids)) if i not in gone]
        ids, w = ids[kept], w[kept]
    return ids, w


def draw(w, u):
    running = np.cumsum(w)
    return (int(np.searchsorted(running, u * running[-1], side="right").clip(0, len(w) - 1)),
            u * running[-1] - running)


def twin(case):
    """The tokens, Mirostat's bound, and how close a decision came to going the other way."""
    p, tokens, bits, drawn, nearest = case["params"], list(case["tokens"]), None, [], 1.0
    seed = p.get("seed", 0)
    for row in case["rows"]:
        logits = adjusted(row, case, tokens)
        index = len(tokens) - case["n_prompt"]
        if p.get("temperature", 1.0) == 0:
            token = int(np.argmax(logits))
        else:
            ids = np.arange(len(logits))
            w = np.exp((logits - logits.max()) / temperature_of(p, logits))
            u = uniform_at(seed, index)
            if p.get("mirostat"):
                order = sorted((i for i in ids if np.isfinite(logits[i])), key=lambda i: (-w[i], i))
                ids, w = ids[order], w[order]
                bits = 2 * p.get("mirostat_tau", 5.0) if bits is None else bits
                n = max(1, int((w / w.sum() >= 2.0 ** -bits).sum()))
                ids, w = ids[:n], w[:n]
            else:
                ids, w = filtered(p, ids, w, seed, index)
            at, distance = draw(w, u)
            nearest = min(nearest, float(np.abs(distance).min() / w.sum()))
            token = int(ids[at])
            if p.get("mirostat"):
                bits -= p.get("mirostat_eta", 0.1) * (-np.log2(w[at] / w.sum()) - p.get("mirostat_tau", 5.0))
        drawn.append(token)
        tokens.append(token)
    return drawn, bits, nearest


SETTINGS = {
    "temperature": [0, 0.3, 0.8, 1.5], "top_k": [1, 5, 20, 1000], "typical_p": [0.2, 0.7, 0.95],
    "top_p": [0.1, 0.6, 0.95], "min_p": [0.02, 0.2], "repetition_penalty": [0.8, 1.3],
    "repetition_last_n": [0, 1, 5, 1000], "presence_penalty": [-1, 1.5], "frequency_penalty": [-0.5, 0.7],
    "xtc_probability": [0.5, 1.0], "xtc_threshold": [0.05, 0.2], "dynatemp_range": [0.3, 2.0],
    "dynatemp_exponent": [0.5, 2.0], "mirostat": [True], "mirostat_tau": [1.0, 4.0],
    "mirostat_eta": [0.05, 0.5], "dry_multiplier": [0.8, 3.0], "dry_base": [1.2, 1.75],
    "dry_allowed_length": [0, 1, 3], "dry_last_n": [0, 7, 100],
    "breakers": [[3], [1, 2, 9]], "logit_bias": [[[4, 3.0]], [[0, -100.0], [7, 1.5]]],
}


def random_case(chance, names):
    n_vocab = chance.choice([12, 70, 200])
    n_tokens = chance.randint(1, 40)
    few = chance.choice([3, n_vocab])  # tokens from a small alphabet repeat themselves
    case = {"rows": [[round(chance.gauss(0, chance.choice([1, 4])), 4) for _ in range(n_vocab)]
                     for _ in range(6)],
            "tokens": [chance.randrange(few) for _ in range(n_tokens)],
            "n_prompt": chance.randint(1, n_tokens), "banned": [],
            "params": {name: chance.choice(SETTINGS[name]) for name in names}}
    case["params"]["seed"] = chance.getrandbits(64)
    if chance.random() < 0.3:
        case["allowed"] = sorted(chance.sample(range(n_vocab), chance.randint(3, n_vocab)))
        case["banned"] = case["allowed"][:1]
        case["params"].pop("logit_bias", None)  # it might leave no token
    return case


@pytest.mark.parametrize("name", [*SETTINGS, "all of them"])
def test_the_twin_samples_the_same_tokens(name):
    chance = random.Random(name)
    cases = []
    for i in range(60):
        others = [other for other in SETTINGS
                  if chance.random() < (0.5 if name == "all of them" else 0.15 * (i % 3))]
        group = [other for other in SETTINGS if other.split("_")[0] == name.split("_")[0]]
        cases.append(random_case(chance, {*others, *group} if name != "all of them" else set(others)))
    text = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([str(TOOL)], input=text, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    n_compared = 0
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        answer = json.loads(line)
        drawn, bits, nearest = twin(case)
        if nearest < 1e-5:
            continue  # float32 and float64 may decide differently
        n_compared += 1
        assert answer["tokens"] == drawn, case["params"]
        assert (answer["bits"] is None) == (bits is None)
        assert bits is None or answer["bits"] == pytest.approx(bits, abs=1e-3)
    assert n_compared >= 50
