"""How messages are found in the C++ sources (tests/support/error_sentences.py), and what is said about a page that lacks some."""
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))

import error_sentences as sentences  # noqa: E402


def found(source, file="server/daemon.cpp"):
    return [sentence for sentence in sentences.Reader(file, source).found if sentences.is_error(sentence)]


def patterns(source, file="server/daemon.cpp"):
    return [sentence.pattern for sentence in found(source, file)]


@pytest.mark.parametrize("source, expected", [
    ('throw StartError(path + ": there is no such file; " "check --model");', ["…: there is no such file; check --model"]),
    ('throw StartError("the flag " + name + (twice ? " is given twice" : " is not known"));',
     ["the flag … is given twice", "the flag … is not known"]),
    ('throw std::runtime_error(fmt::format("{}, line {:>3}: {{}} is no TOML", file, line));', ["…, line …: {} is no TOML"]),
    ('refuse_param(name, std::string("\'").append(name).append("\' must be greater than 0."));', ["'…' must be greater than 0."]),
    ('std::string why() { return "the driver says " + code() + "; update it"; }', ["the driver says …; update it"]),
    ('fail(label("a model file"), "it says \\"no\\" and \\xe2" "ends");', ["a model file", 'it says "no" and âends']),
    ('throw Failure("empty separator");', ["empty separator"]),
    ('constexpr Row kRows[] = {{"name", "use another name instead"}};', ["use another name instead"]),
    ('// throw StartError("this is a comment only");\n#error "this is for the compiler only"\n', []),
    ('log_info("the model is loaded now"); static_assert(kN > 0, "there must be at least one");', []),
    ('find("short one");', []),
])
def test_a_sentence_is_put_together(source, expected):
    assert patterns(source) == expected


def test_what_a_call_completes_is_completed():
    assert patterns('check(cudaFree(p), "freeing memory");', "kernels/trace.cpp") == ["CUDA failed while freeing memory: …."]


@pytest.mark.parametrize("files, call", [(files, call) for files, call, _ in sentences.COMPLETED])
def test_what_completes_a_message_is_in_the_code(files, call):
    sources = [path for path in sentences.ROOT.glob(files + "/**/*" if files.endswith("*") else files) if path.is_file()]
    assert any(re.search(rf"\b{call}\b", path.read_text()) for path in sources), f"{files} has no {call} any more"


def test_errors_of_ours_are_told_from_others():
    assert [s.is_internal for s in found('throw std::logic_error("a step is forgotten while it runs");')] == [True]
    assert [s.is_internal for s in found('throw std::runtime_error("the file is not there");')] == [False]


PAGE = """## Starting

<!-- messages: server/* -->

```text
the old message is gone
```

## Ours

<!-- messages: internal -->

```text
```
"""


def test_the_lines_to_add_and_to_take_out_are_said_as_they_are_pasted():
    faults = list(sentences.faults_of_page(PAGE, found('throw StartError("the new message is here: " + why);')))
    assert faults == ['Under "Starting" these are missing:\nthe new message is here: …',
                      'Under "Starting" these are said by nothing in the code any more; take them out:\nthe old message is gone']


def test_a_message_that_no_group_takes_is_said_with_its_place():
    faults = list(sentences.faults_of_page(PAGE, found('\nthrow StartError("nobody lists this one");', "config/invocation.cpp")))
    assert any(fault.startswith("config/invocation.cpp:2 ") and fault.endswith("nobody lists this one") for fault in faults)


def test_the_longest_pattern_takes_a_message_and_a_function_may_be_named():
    page = PAGE + "\n## Functions\n\n<!-- messages: server/daemon.cpp:load -->\n\n```text\n```\n"
    wanted, homeless = sentences.listed(page, found('void load() { throw StartError("it is not there"); }\n'
                                                    'void save() { throw StartError("it is too large"); }'))
    assert wanted["server/daemon.cpp:load"] == ["it is not there"]
    assert wanted["server/*"] == ["it is too large"]
    assert not homeless


def test_the_page_that_is_written_has_no_faults():
    known = found('throw StartError("the new message is here: " + why); throw std::logic_error("ours is this one");')
    page = sentences.rewritten(PAGE, known)
    assert "the new message is here: …\n" in page and "ours is this one\n" in page and "old" not in page
    assert not list(sentences.faults_of_page(page, known))


def test_a_heading_that_quotes_what_nothing_says_is_a_fault():
    page = sentences.rewritten(PAGE + "\n### `the new message … here` and `gone`\n", known := found('fail("the new message is here");'))
    assert not [fault for fault in sentences.faults_of_page(page, known) if "the new" in fault.split("quotes")[1]]
    assert [fault for fault in sentences.faults_of_page(page, known) if '"gone"' in fault]
