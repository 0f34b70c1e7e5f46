"""lm-evaluation-harness (pip install lm-eval[api]): its local-completions model scores as hearth-profiler
does.

It finds the server's tokenizer itself (/tokenizer_info, /tokenize), sends token ids with echo, logprobs 1 and
max_tokens 1, and adds the log-probabilities of the continuation's tokens.
"""
import json
import math
import os
import re
import subprocess
import sys

import pytest

import hearthd
from examples import MODEL

openai_completions = pytest.importorskip("lm_eval.models.openai_completions",
                                         reason="lm-eval[api] is not installed: tests/clients/run.sh")

PROFILER = hearthd.BUILD / "hearth-profiler"
WINDOW = 64
TEXT = hearthd.ROOT / "README.md"

TASK = """
task: capitals
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{answers}}}}"
doc_to_target: "{{{{right}}}}"
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""
QUESTIONS = [{"question": f"The capital of {country} is", "answers": ["Paris", "Berlin", "Rome"],
              "right": right}
             for right, country in enumerate(("France", "Germany", "Italy"))]


@pytest.fixture()
def harness(base_url):
    """harness(**options) -> lm-eval's client of the server."""
    def make(**options):
        lm = openai_completions.LocalCompletionsAPI(
            base_url=base_url + "/completions", model=MODEL, max_length=2048,
            max_retries=1, timeout=hearthd.PATIENCE, **options)
        assert lm.tokenizer_backend == "remote"
        return lm

    return make


def loglikelihoods(lm, *pairs):
    from lm_eval.api.instance import Instance

    return lm.loglikelihood([Instance("loglikelihood", {}, pair, index) for index, pair in enumerate(pairs)],
                            disable_tqdm=True)


def test_the_true_answer_is_the_likelier_one(harness):
    (paris, is_greedy), (rome, _) = loglikelihoods(harness(), ("The capital of France is", " Paris"),
                                                   ("The capital of France is", " Rome"))
    assert rome < paris < 0 and is_greedy


def test_several_requests_in_one_give_the_same_bits(harness):
    pairs = [("The capital of France is", " Paris"), ("The sky is", " blue today"),
             ("One, two,", " three, four")]
    assert loglikelihoods(harness(batch_size=3), *pairs) == loglikelihoods(harness(), *pairs)


def test_sums_are_those_of_the_profilers_perplexity(harness, model_path, tmp_path):
    """The profiler scores the second half of each window; here that half is a continuation, and the first
    half its context.

    Both add log-probabilities of the same float32 logits. The profiler prints four digits after the point,
    which is the whole tolerance.
    """
    lm = harness()
    text = tmp_path / "text.txt"
    text.write_text(TEXT.read_text()[:1200])
    ids = lm.tokenizer.encode(text.read_text())
    windows = [ids[at:at + WINDOW] for at in range(0, len(ids) - WINDOW + 1, WINDOW)]
    first = WINDOW // 2 + 1  # the first token that the profiler scores
    scores = lm._loglikelihood_tokens([((None, None), w[:first], w[first:]) for w in windows],
                                      disable_tqdm=True)
    mean = sum(score for score, _ in scores) / (len(windows) * (WINDOW - first))

    done = subprocess.run([PROFILER, "perplexity", "-m", model_path, "-f", text, "-c", str(WINDOW)],
                          capture_output=True, text=True, env=hearthd.clean_environment(),
                          timeout=hearthd.PATIENCE)
    printed = re.search(r"perplexity (\S+) \+/- .*\((\d+) windows of \d+ tokens, (\d+) tokens scored",
                        done.stdout)
    assert printed, done.stdout + done.stderr
    assert int(printed[2]) == len(windows) > 1 and int(printed[3]) == len(windows) * (WINDOW - first)
    assert math.exp(-mean) == pytest.approx(float(printed[1]), abs=5.1e-5)


def test_the_command_runs_a_task(base_url, harness, tmp_path):
    data = tmp_path / "capitals.jsonl"
    data.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    (tmp_path / "capitals.yaml").write_text(TASK.format(data=data))
    done = subprocess.run(
        [sys.executable, "-m", "lm_eval", "--model", "local-completions",
         "--tasks", "capitals", "--include_path", tmp_path,
         "--model_args", f"model={MODEL},base_url={base_url}/completions", "--output_path", tmp_path / "out"],
        env={**os.environ, "HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1",
             "HF_DATASETS_OFFLINE": "1"},
        capture_output=True, text=True, timeout=2 * hearthd.PATIENCE, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    report, = (tmp_path / "out").rglob("results_*.json")
    accuracy = json.loads(report.read_text())["results"]["capitals"]["acc,none"]
    # Repeats the computation by hand: the harness puts a space before each answer.
    lm, right = harness(), 0
    for question in QUESTIONS:
        scores = [score for score, _ in loglikelihoods(
            lm, *((question["question"], " " + a) for a in question["answers"]))]
        right += scores.index(max(scores)) == question["right"]
    assert accuracy == pytest.approx(right / len(QUESTIONS)) and right >= 1
