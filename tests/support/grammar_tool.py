"""Runs a process of tests/support/grammar_tool.cpp: grammars of regular expressions and schemas, their
members, and whether texts match."""
import contextlib
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HEARTH_BUILD_DIR", ROOT / "build/release"))
TOOL = BUILD / "tests/grammar_tool"


class Tool:
    def __init__(self, process):
        self.process = process

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer.endswith("\n"), f"grammar_tool died on {question}"
        return json.loads(answer)


@contextlib.contextmanager
def running():
    process = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               encoding="utf-8")
    try:
        yield Tool(process)
    finally:
        process.stdin.close()
        assert process.wait(timeout=60) == 0
        process.stdout.close()
