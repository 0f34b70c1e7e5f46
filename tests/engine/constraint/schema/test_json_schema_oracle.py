"""JSON schemas compared with PyPI's jsonschema, on random schemas: members of the grammar are valid, no
invalid text is a member, and valid values are members if they are written as docs/structured.md describes.
"""
import json
import pathlib
import random
import sys

import jsonschema
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "support"))
import grammar_tool
from random_schemas import RandomSchemas, RandomValues, closed

N_SHORT, N_FULL = 200, 1800
N_MEMBERS, N_VALUES, N_CHANGED = 5, 5, 8

pytestmark = pytest.mark.skipif(not grammar_tool.TOOL.exists(), reason=f"{grammar_tool.TOOL} is not built")


@pytest.fixture(scope="module")
def tool():
    with grammar_tool.running() as process:
        yield process



def validator_of(schema):
    return jsonschema.Draft202012Validator(schema,
                                           format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def written(value):
    return json.dumps(value, ensure_ascii=False)


def check(tool, seed):
    """Compares one random schema. Returns whether the schema was accepted, and how many valid values were
    checked."""
    rng = random.Random(seed)
    schema = RandomSchemas(rng).root()
    text = json.dumps(schema)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator, narrow = validator_of(schema), validator_of(closed(schema))
    values = RandomValues(rng, schema)
    likely = [values.value(schema) for _ in range(N_VALUES)]
    changed = [values.changed(rng.choice(likely)) for _ in range(N_CHANGED)]
    answer = tool.ask(schema=text, seed=seed, members=N_MEMBERS, compile=True,
                      match=[written(value) for value in likely + changed])
    if "error" in answer:
        # Some intersections are found to be empty only in the automaton, for example that of a pattern and a
        # length. The automaton does not know positions in the schema, so these errors have none.
        is_empty = answer["error"].startswith("The grammar matches no text at all")
        assert answer["where"].startswith("#") or is_empty, (text, answer)
        if is_empty or answer["error"].startswith("No value is valid"):
            assert not any(narrow.is_valid(value) for value in likely), (text, answer)
        return False, 0
    for member in answer["members"]:
        assert validator.is_valid(json.loads(member)), f"seed {seed}: {member}\nis no value of\n{text}"
    n_valid = 0
    for i, (value, matched) in enumerate(zip(likely + changed, answer["matches"])):
        valid = validator.is_valid(value)
        assert valid or not matched, f"seed {seed}: {written(value)}\nis matched, but invalid under\n{text}"
        if i < len(likely) and narrow.is_valid(value):
            n_valid += 1
            assert matched, f"seed {seed}: {written(value)}\nis not matched, but valid under\n{text}"
    return True, n_valid


def check_all(tool, seeds):
    results = [check(tool, seed) for seed in seeds]
    n_accepted = sum(accepted for accepted, _ in results)
    n_valid = sum(n for _, n in results)
    # Most random schemas must be translated and have values, otherwise the comparison would say little.
    assert n_accepted > 0.8 * len(results)
    assert n_valid > 2 * n_accepted


def test_random_schemas(tool):
    check_all(tool, range(N_SHORT))


@pytest.mark.nightly
def test_more_random_schemas(tool):
    check_all(tool, range(N_SHORT, N_SHORT + N_FULL))


def test_members_of_any_object_are_objects(tool):
    for member in tool.ask(object=True, seed=1, members=200)["members"]:
        assert isinstance(json.loads(member), dict), member


def test_declared_names_come_once(tool):
    schema = {"properties": {"a": {}, "é\n": {}}, "required": ["c"], "additionalProperties": True,
              "patternProperties": {"^b": {}}}
    for member in tool.ask(schema=json.dumps(schema), seed=3, members=300)["members"]:
        pairs = json.loads(member, object_pairs_hook=lambda pairs: pairs)
        names = [name for name, _ in pairs]
        assert all(names.count(name) <= 1 for name in ("a", "é\n", "c")), member
