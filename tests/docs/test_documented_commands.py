"""Runs the commands and Python examples of README.md and docs/ (documented.py defines how), and compares
their output with what the pages show. A new block that cannot be run needs a mark with the reason."""
import importlib.util
import pathlib
import re
import sys

import pytest

import documented
import hearthd

BLOCKS = documented.all_blocks()
PATIENCE = 1800  # seconds for one block; none takes a tenth of it on an idle machine
RUN_ELSEWHERE = {("docs/clients.md", "python"): "tests/clients/test_with_documentation.py"}


def cases(language):
    for block in BLOCKS:
        if block.language in language and block.is_run and (block.page, block.language) not in RUN_ELSEWHERE:
            yield pytest.param(block, id=block.name,
                               marks=[pytest.mark.nightly] if block.mark("run nightly") is not None else [])


@pytest.fixture(scope="module")
def served(model_path):
    """One server for all blocks that need one."""
    server = hearthd.Hearthd("--slots", "2", "--context", "2048", "--alias", model_path.stem, "--alias", "*",
                             model=model_path)
    yield server
    server.kill()


@pytest.fixture()
def sandbox(tmp_path):
    made = documented.Sandbox(tmp_path)
    yield made
    made.close()


def test_every_block_is_run_or_says_why_not():
    faults = [fault for block in BLOCKS for fault in documented.faults_of_marks(block)]
    assert not faults, "\n".join(["", *faults, "tests/docs/documented.py says which marks there are."])
    assert len([block for block in BLOCKS if block.language in documented.LANGUAGES and block.is_run]) >= 25


def run(block, sandbox, request):
    faults = list(documented.faults_of_marks(block))  # first, so that nothing runs that must not
    assert not faults, "\n".join(faults)
    if documented.SERVED in block.text and not any(
            documented.SERVING.match(line) and not documented.NOT_SERVING.search(line)
            for line in (block.text + (block.mark("run after") or "")).splitlines()):
        sandbox.port = request.getfixturevalue("served").port
    if after := block.mark("run after"):
        sandbox.run_shell(after, PATIENCE)
    if block.language == "python":
        code, printed, errors = sandbox.run_program([sys.executable, "-c", sandbox.own(block.text)], PATIENCE)
        assert code == 0, errors
        return printed
    return sandbox.run_shell(block.chosen_text, PATIENCE, [words for words, _ in block.left_out()])


@pytest.mark.parametrize("block", list(cases(("sh", "bash"))))
def test_a_block_of_commands_runs(block, sandbox, request):
    why = documented.difference(block, run(block, sandbox, request))
    assert why is None, f"{block.name} shows another output: {why}"


@pytest.mark.parametrize("block", list(cases(("console",))))
def test_a_console_prints_what_the_page_shows(block, sandbox):
    sandbox.run_shell(block.mark("run after") or "", PATIENCE)
    why = sandbox.run_console(block.chosen_text, PATIENCE)
    assert why is None, f"{block.name} shows another output: {why}"


@pytest.mark.parametrize("block", list(cases(("python",))))
def test_an_example_in_python_runs(block, sandbox, request):
    for package in re.findall(r"^(?:from|import) (\w+)", block.text, re.MULTILINE):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed: tests/requirements-all.txt")
    why = documented.difference(block, run(block, sandbox, request))
    assert why is None, f"{block.name} shows another output: {why}"


# How blocks are read, marked and compared.

PAGE = """
<!-- run after: build/release/hearthd --help > help.txt; true -->
<!-- run nightly -->

```sh
cat help.txt
```

A word between.

<!-- output -->

```
Usage: …
```

1. In a list:

   <!-- not run: it is too slow -->
   ```sh
   sleep 100
   ```

<!-- run by: tests/docker/debian_root.sh -->

Words between a mark and its block take the mark away.

```bash
./server/run.sh
```

```
$ hearthd --help
```
"""


def test_blocks_are_read_with_their_marks():
    first, shown, listed, bare, lost = documented.read_blocks(PAGE, "docs/x")
    assert (first.language, first.text, first.line) == ("sh", "cat help.txt\n", 5)
    assert first.mark("run after") == "build/release/hearthd --help > help.txt; true"
    assert first.mark("run nightly") == "" and first.mark("run by") is None
    assert first.output is shown and listed.output is None
    assert listed.text == "sleep 100\n" and not listed.is_run
    assert bare.is_run and not bare.marks


def test_mistakes_in_marks_are_reported():
    faults = [fault for block in documented.read_blocks(PAGE, "docs/x")
              for fault in documented.faults_of_marks(block)]
    assert [fault.split(": ")[0] for fault in faults] == ["docs/x:20", "docs/x:32"]
    assert '"not run: it is too slow" is no reason' in faults[0] and "has no language" in faults[1]


@pytest.mark.parametrize("line", ["sudo reboot", "cd x && apt install nginx", "./tests/run.sh",
                                  "A=1 docker/install-deps.sh build"])
def test_what_changes_the_machine_needs_a_mark(line):
    block = documented.read_blocks(f"```sh\n{line}\n```\n", "docs/x")[0]
    assert ["would change this machine" in fault for fault in documented.faults_of_marks(block)] == [True]


def test_a_test_that_runs_a_block_must_name_its_programs():
    block = documented.read_blocks("<!-- run by: tests/docker/debian_root.sh -->\n```sh\n./server/run.sh\n"
                                   "no-such-program\n```\n", "docs/x")[0]
    assert [fault.split(", ")[-1] for fault in documented.faults_of_marks(block)] == [
        "which does not name no-such-program."]


@pytest.mark.parametrize("shown, printed, same", [
    ("a … c", "a b c", True), ("a b", "a c", False), ("1.00000 x", "1.000001 x", True),
    ("1.0 x", "1.1 x", False), ("a\nb", "a", False),
    ("speed …", "speed 1 2 3", True), ("took …s", "took 17s", True), ("a", "a b", False),
])
def test_texts_are_compared(shown, printed, same):
    assert (documented.same_text(shown, printed) is None) == same


@pytest.mark.parametrize("shown, printed, same", [
    ({"a": 1}, {"a": 1, "b": 2}, True), ({"a": 1}, {"a": 2}, False), ({"id": "x"}, {"id": "y"}, True),
    ({"id": "x"}, {}, False), ([1, "…"], [1, 2, 3], True), ([1], [1, 2], False),
    (0.5, 0.50001, True), (0.5, 0.6, False), ("…", [], True),
])
def test_json_is_compared(shown, printed, same):
    assert (documented.same_value(shown, printed) is None) == same


def test_a_block_that_fails_says_what_it_printed(sandbox):
    with pytest.raises(AssertionError, match="exit code 3(?s:.*)here it is(?s:.*)gone wrong"):
        sandbox.run_shell("echo here it is; echo gone wrong >&2; exit 3\n", PATIENCE)


def ended(pid_file):
    """Whether the process whose number a file has is gone, or is a zombie that nobody has asked for yet."""
    try:
        return pathlib.Path("/proc", pid_file.read_text().strip(),
                            "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_block_that_hangs_is_ended_with_all_that_it_started_and_says_which_command(sandbox):
    with pytest.raises(AssertionError, match="not done after 1 s(?s:.*)sleep 1234(?s:.*)begun"):
        sandbox.run_shell("echo begun; sleep 1234 & echo $! > pid; (sleep 1235) | cat; echo never\n", 1)
    hearthd.wait_until(lambda: ended(sandbox.folder / "pid"), "the end of what the block started")


def test_processes_that_a_block_leaves_running_are_ended_without_a_wait(sandbox):
    assert sandbox.run_shell("sleep 1236 & echo $! > pid; echo done\n", PATIENCE) == "done\n"
    hearthd.wait_until(lambda: ended(sandbox.folder / "pid"), "the end of what the block started")


def test_a_console_is_compared(sandbox):
    assert sandbox.run_console("$ echo one two\none two\n$ echo three\nth…\n$ true\n", PATIENCE) is None
    assert (sandbox.run_console("$ echo one\none\n$ echo two\nthree\n", PATIENCE)
            == 'echo two: line 1 has "two", the page shows "three"')


def test_nothing_of_the_clone_is_written(sandbox):
    sandbox.run_shell(
        "echo x > config/hearth.toml; echo x > docs/configuration.md; echo x > /etc/hearth/keys\n", PATIENCE)
    assert (hearthd.ROOT / "config" / "hearth.toml").read_text() != "x\n"
    assert (hearthd.ROOT / "docs" / "configuration.md").read_text() != "x\n"
    assert (sandbox.folder / "etc" / "hearth" / "keys").read_text() == "x\n"
