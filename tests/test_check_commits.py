"""tests/check_commits.sh on a repository of its own: which messages it accepts and which it refuses."""
import pathlib
import shutil
import subprocess

import pytest

TESTS = pathlib.Path(__file__).parent


def git(folder, *words):
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True,
                   stdin=subprocess.DEVNULL, timeout=60)


def commit(folder, message):
    git(folder, "commit", "--allow-empty", "--cleanup=verbatim", "-m", message)


def checked(folder):
    run = subprocess.run([folder / "tests/check_commits.sh"], capture_output=True, text=True, timeout=60,
                         env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"})
    return run.returncode, run.stdout + run.stderr


@pytest.fixture()
def tree(tmp_path):
    """A repository whose main branch has one commit with a bad message, and a branch that begins there."""
    (tmp_path / "tests/support").mkdir(parents=True)
    shutil.copy(TESTS / "check_commits.sh", tmp_path / "tests")
    shutil.copy(TESTS / "support/merge_base.sh", tmp_path / "tests/support")
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "the old message.")
    git(tmp_path, "checkout", "-q", "-b", "change")
    return tmp_path


def test_good_messages(tree):
    commit(tree, "Remove the second unity-build option\n\nJoined targets already skip it.")
    commit(tree, "Bring neurons to the device in one copy\n\nTwo copies cost two latencies.\n\n"
                 "Signed-off-by: A <a@example.com>")
    commit(tree, "Pass the budget to the solver\n\nIt was read twice.")
    commit(tree, "X" * 72 + "\n\nLong, and just short enough.")
    commit(tree, 'Revert "' + "x" * 80 + '"')
    commit(tree, "Merge branch 'other' into change")
    assert checked(tree) == (0, "commits: 6 of 6 new messages are as docs/contributing.md asks\n")


@pytest.mark.parametrize("message, fault", [
    ("Add a cache", "the body is missing"),
    ("Add a cache\n\nSigned-off-by: A <a@example.com>", "the body is missing"),
    ("Add a cache.\n\nFor speed.", "ends with a period"),
    ("add a cache\n\nFor speed.", "capital letter"),
    ("Add " + "x" * 69 + "\n\nFor speed.", "has 73 characters"),
    ("Added a cache\n\nFor speed.", '"Added" is not an imperative'),
    ("Adds a cache\n\nFor speed.", '"Adds" is not an imperative'),
    ("Adding a cache\n\nFor speed.", '"Adding" is not an imperative'),
    ("The cache is kept\n\nFor speed.", '"The" is not an imperative'),
    ("What is joined needs no second switch\n\nFor speed.", '"What" is not an imperative'),
    ("Messages of after the last changes\n\nFor speed.", '"Messages" is not an imperative'),
])
def test_a_bad_message_is_refused(tree, message, fault):
    commit(tree, "Fix the cache\n\nIt was empty.")
    commit(tree, message)
    code, printed = checked(tree)
    assert code == 1
    assert fault in printed and message.splitlines()[0] in printed
    assert "Fix the cache" not in printed and "the old message" not in printed
    assert printed.splitlines()[-1] == "commits: 1 of 2 new messages are as docs/contributing.md asks"


def test_without_a_base_nothing_is_checked(tree):
    git(tree, "checkout", "-q", "main")
    code, printed = checked(tree)
    assert code == 77
    assert "nothing was checked" in printed
