"""Finds the sentences in the C++ sources that tell a user what is wrong, and keeps docs/troubleshooting.md in step with them.

A sentence is what a program puts together from literals: neighbours are joined, what varies between them is written "…",
and `c ? "a" : "b"` makes two sentences. Every text of three words or more is taken for an error unless NOT_ERRORS says by
file, function or call that it is something else, so new helper functions that take or return messages need no entry here.
What is thrown, logged as a warning or refused counts with fewer words too.

    python3 tests/support/error_sentences.py           what docs/troubleshooting.md lacks, and what it has too much
    python3 tests/support/error_sentences.py --write   writes the lists of that page anew; its text stays as it is
    python3 tests/support/error_sentences.py --list    every sentence with its place in the code
"""
import argparse
import dataclasses
import fnmatch
import itertools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "troubleshooting.md"
FOLDERS = ("server", "engine", "kernels", "profiler", "config")
VARIES = "…"
MOST_ALTERNATIVES = 4  # of one sentence; where more pieces vary, each stands alone

# What is text, but no error: results, help, prompts, pages. By file, by file and function, and by what is called with it.
NOT_ERRORS_IN_FILES = [
    "config/option_table.cpp", "config/render.cpp", "config/wrapped_lines.cpp",
    "server/metrics/metrics_text.*", "server/page/page.cpp", "server/chat/thinking_syntax.cpp", "server/http/access/cors.cpp",
    "server/chat/tools/derive_tool_syntax.cpp", "server/chat/tools/probe_text.h", "server/chat/tools/tool_description.cpp",
    "server/chat/tools/tool_syntax.cpp",
    "engine/tokenizer/pre_tokenizer.cpp", "engine/residency/plan.cpp", "profiler/report/*", "profiler/plan/plan_report.cpp",
    "profiler/predictors/training_report.cpp", "profiler/commands/count_report.cpp", "profiler/bench/kernel_report.cpp",
    "profiler/bench/constraint_cases.cpp", "profiler/placement/*", "profiler/simulation/simulation.cpp",
    "profiler/machine/hardware.cpp", "kernels/cuda/bench/kernel_cases.cpp", "kernels/cuda/runtime/gpu.h", "kernels/cpu/amx/*",
    "kernels/cuda/runtime/kernel_work.h",
    "kernels/cuda/runtime/device_trace.cpp", "config/manual/*", "profiler/commands/described_profiler.*",
    "server/models/known_models.*", "server/models/show.*", "config/command_table.*",
]
NOT_ERRORS_IN_FUNCTIONS = [
    "*:*_toml", "*:*_csv", "*:main_of", "*:interrupted", "*:probe_text", "*:description",
    "engine/activity/activity_profile.cpp:try_source", "engine/constraint/grammar/gbnf.cpp:parse_group",
    "engine/constraint/schema/counted.cpp:*", "engine/constraint/schema/numbers/multiples.cpp:remainder_rules",
    "engine/residency/sparsity_choice.cpp:probe_text", "kernels/cpu/cpu_backend.cpp:description",
    "kernels/cuda/cuda_backend.cpp:from_host", "kernels/cuda/runtime/device_text.cpp:describe", "profiler/*:[!r]*_text",
    "profiler/bench/bench.cpp:*", "profiler/bench/constraint_bench.cpp:", "profiler/bench/speculation_bench.cpp:",
    "profiler/calibration/calibrate.cpp:measure_held_out", "profiler/calibration/calibrate.cpp:within_budget",
    "profiler/commands/calibrate_command.cpp:report", "profiler/commands/model_options.cpp:solved_here",
    "profiler/commands/plan_options.cpp:named_counts", "profiler/commands/probe_command.cpp:*",
    "profiler/commands/report_command.cpp:look_at_held_out", "profiler/commands/report_command.cpp:write_page",
    "profiler/commands/terminal.cpp:else", "profiler/commands/train_command.cpp:add_target_percents",
    "profiler/commands/train_command.cpp:identity_of", "profiler/commands/train_command.cpp:measure_served",
    "profiler/machine/probe.cpp:probe_host", "profiler/plan/*:*_lines", "profiler/plan/mixture_plan.cpp:Planner",
    "profiler/plan/mixture_plan.cpp:tell_parts", "profiler/plan/mixture_plan.cpp:waits",
    "profiler/plan/plan_answer.cpp:find_helps", "profiler/predictors/train_predictors.cpp:*",
    "server/api/anthropic/message_shape.cpp:*", "server/api/ollama/models.cpp:greeting",
    "server/api/ollama/models.cpp:modelfile", "server/chat/chat_template.cpp:", "server/check_config.cpp:check_config",
    "server/check_config.cpp:model_line", "server/http/access/key_file.cpp:hashed_key_line",
    "server/http/http_server.cpp:refusal_bytes", "server/process/healthcheck.cpp:read_status",
    "server/serving_model.cpp:pool_text",
    "profiler/commands/convert_command.*:known_models", "profiler/commands/quantize_command.*:run_quantize",
    "profiler/commands/quantize_command.*:mix_table", "profiler/convert/family.*:", "profiler/convert/pre_tokenizer_name.*:",
    "profiler/quantize/importance.*:read", "server/models/model_commands.*:known_text", "server/models/model_commands.*:list_text",
    "server/models/pull.*:files_text", "server/models/reference.*:",
]
NOT_ERRORS_IN_CALLS = {
    "log_info", "log_debug", "assert", "static_assert", "option", "flag", "add_option", "add_flag", "add_subcommand", "add_percent",
    "description", "footer", "printf", "fputs", "puts", "print", "print_result", "volatile", "mark", "computing", "waiting", "notify",
    "progress", "tick", "line", "counter", "gauge", "histogram", "schema_case", "score", "app",
}
# Texts of protocols and files.
NOT_ERRORS = re.compile(r"^(?:GET /|Bearer realm|version https://git-lfs|# |, memory on … NUMA nodes)")
# What goes with these is an error however short it is.
ERROR_CALLS = re.compile(r"^(?:\w*Error|Failure|fail\w*|refuse\w*|log_warning|log_error|\w*_error|damaged|runtime_error"
                         r"|invalid_argument|reject\w*)$")
# An error of ours, not of the user's.
INTERNAL_CALLS = {"logic_error", "length_error", "out_of_range"}
# Messages that a call completes: (files, call, what a user sees of its text).
COMPLETED = [
    ("kernels/cuda/matmul/library_products.cpp", "require", f"{VARIES} failed while {{}}: {VARIES}."),
    ("kernels/*", "check", f"CUDA failed while {{}}: {VARIES}."),
    ("kernels/*", "check_allocation", f"CUDA failed while {{}}: {VARIES}."),
    ("kernels/*", "wait_for_number", f"The device has done all its work and not handed over {{}}; this is a mistake in Hearth."),
    ("server/api/request/foreign_fields.cpp", "kRefusedForeign", f"'{VARIES}' is not supported: {{}}."),
]

TOKEN = re.compile(r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/|(?<![^\n])[ \t]*\#(?:[^\n\\]|\\.)*)
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\((?P<rawtext>.*?)\)(?P=mark)")
  | (?P<text>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*")
  | (?P<character>(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')
  | (?P<number>\.?\d(?:[\w.']|[eEpP][+-])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign>::|->|<<|>>|<=|>=|==|!=|\+=|&&|\|\||.)""", re.VERBOSE | re.DOTALL)
PRINTF = re.compile(r"%(?:%|[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:ll|l|z|h)?[a-zA-Z])")
TEXT_OF_WORDS = re.compile(r'^(?!\s*#).*"[^"\n]*[A-Za-z]{2}[^"\n]* [^"\n]*"', re.MULTILINE)
ESCAPE = re.compile(r'\\(x[0-9a-fA-F]+|[0-7]{1,3}|.)', re.DOTALL)
NAMED_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
NO_TYPES = {"", "const", "override", "noexcept", "final", "return", "else", "try", "do", "namespace", "hearth"}
CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclasses.dataclass(slots=True)
class Token:
    kind: str  # text, name, sign, character, number
    text: str  # of a text: its value
    line: int


@dataclasses.dataclass(slots=True)
class Group:
    sign: str       # what opens it
    name: str       # what is called, or the function whose body it is
    children: list
    line: int
    kind: str = "group"
    text: str = ""


@dataclasses.dataclass(slots=True)
class Sentence:
    pattern: str
    file: str
    line: int
    calls: tuple
    function: str

    @property
    def is_internal(self):
        return bool(INTERNAL_CALLS.intersection(self.calls))


def unescaped(text):
    def value(match):
        code = match.group(1)
        if code[0] == "x":
            return chr(int(code[1:], 16))
        return NAMED_ESCAPES.get(code, code)
    return ESCAPE.sub(value, text)


def tokens_of(source):
    line = 1
    for match in TOKEN.finditer(source):
        if match["raw"] is not None:
            yield Token("text", match["rawtext"], line)
        elif match["text"] is not None:
            yield Token("text", unescaped(match["text"][match["text"].index('"') + 1:-1]), line)
        elif match["space"] is None:
            yield Token(match.lastgroup, match.group(), line)
        line += match.group().count("\n")


def name_before(siblings):
    """What is called by a group that follows these: f of f(), T of T<int>() and of T{}, v of T v{} and T v[] = {}."""
    at = len(siblings) - 1
    if at >= 1 and siblings[at].text == "=":
        at -= 1
        while at > 0 and siblings[at].kind == "group" and siblings[at].sign == "[":
            at -= 1
    elif at >= 0 and siblings[at].text == ">":
        depth = 0
        while at >= 0:
            depth += {">": 1, "<": -1}.get(siblings[at].text, 0)
            at -= 1
            if depth == 0:
                break
    return siblings[at].text if at >= 0 and siblings[at].kind == "name" else ""


def function_of_block(siblings):
    """The function whose body a block after these is; empty for other blocks."""
    begin = max((i for i, s in enumerate(siblings) if s.text == ";" or (s.kind == "group" and s.sign == "{")), default=-1)
    if any(node.text == "namespace" for node in siblings[begin + 1:]):
        return ""
    for node in siblings[begin + 1:]:
        if node.kind == "group" and node.sign == "(" and node.name not in ("", "if", "for", "while", "switch", "catch", "noexcept"):
            return node.name
    return ""


def with_sums(nodes):
    """a.append(b) reads as a + b."""
    out = []
    for node in nodes:
        if node.kind == "group" and node.name == "append" and len(out) > 1 and out[-2].text == ".":
            del out[-2:]
            out += [Token("sign", "+", node.line), Group("(", "", node.children, node.line)]
        else:
            out.append(node)
    return out


def tree_of(source):
    root = Group("{", "", [], 1)
    stack = [root]
    for token in tokens_of(source):
        siblings = stack[-1].children
        if token.text in CLOSING and token.kind == "sign":
            name = name_before(siblings)
            if token.text == "{" and any(node.text == "namespace" for node in siblings[-6:]):
                name = ""
            elif token.text == "{" and name in NO_TYPES:
                name = "" if name == "return" else function_of_block(siblings)
            group = Group(token.text, name, [], token.line)
            siblings.append(group)
            stack.append(group)
        elif token.text in (")", "]", "}") and token.kind == "sign":
            if len(stack) > 1:
                stack.pop()
        else:
            siblings.append(token)
    return root


def split(nodes, signs):
    part = []
    for node in nodes:
        if node.kind == "sign" and node.text in signs:
            yield part
            part = []
        else:
            part.append(node)
    yield part


class Reader:
    """Collects the sentences of one file."""

    def __init__(self, file, source):
        self.file = file
        self.found = []
        self.walk(tree_of(source), (), "")

    def walk(self, group, calls, function):
        is_body = group.sign == "{" and any(n.text == ";" or (n.kind == "group" and n.sign == "{") for n in group.children)
        if group.sign == "{" and group.name and is_body:
            function, calls = group.name, ()
        elif group.name:
            calls = (*calls, group.name)
        for part in split(with_sums(group.children), (",", ";")):
            self.take(part, calls, function)

    def take(self, nodes, calls, function):
        """A whole expression or statement: its sentences, and those of what it calls."""
        blocks = [i for i, n in enumerate(nodes) if n.kind == "group" and n.sign == "{"]
        if blocks and blocks[0] + 1 < len(nodes) and not any(n.text == "?" for n in nodes[:blocks[0]]):
            self.take(nodes[:blocks[0] + 1], calls, function)
            self.take(nodes[blocks[0] + 1:], calls, function)
            return
        line = next((n.line for n in nodes if n.kind == "text"), nodes[0].line if nodes else 0)
        for pattern in self.alternatives(nodes, calls, function):
            self.add(pattern, line, calls, function)

    def add(self, pattern, line, calls, function):
        for files, call, whole in COMPLETED:
            if call in (calls[-1] if calls else "", function) and re.search("[a-z]", pattern) and not re.search("failed while|handed over", pattern) and fnmatch.fnmatch(self.file, files):
                pattern = whole.format(pattern)
        if calls and calls[-1] in ("fprintf", "snprintf"):
            pattern = PRINTF.sub(lambda match: "%" if match.group() == "%%" else VARIES, pattern)
        pattern = re.sub(r"\s*\n\s*", " ", pattern)
        pattern = re.sub(f"{VARIES}+", VARIES, pattern).strip()
        if re.search(r"[A-Za-z]{2}", pattern):
            self.found.append(Sentence(pattern, self.file, line, calls, function))

    def alternatives(self, nodes, calls, function):
        """What an expression may come to, with VARIES for what is not known."""
        ask = next((i for i, n in enumerate(nodes) if n.kind == "sign" and n.text == "?"), None)
        if ask is not None:
            depth, colon = 0, None
            for i in range(ask + 1, len(nodes)):
                if nodes[i].kind == "sign" and nodes[i].text == "?":
                    depth += 1
                elif nodes[i].kind == "sign" and nodes[i].text == ":":
                    if depth == 0:
                        colon = i
                        break
                    depth -= 1
            if colon is not None:
                for node in nodes[:ask]:
                    if node.kind == "group":
                        self.walk(node, calls, function)
                return (self.alternatives(nodes[ask + 1:colon], calls, function) +
                        self.alternatives(nodes[colon + 1:], calls, function))
        pieces = [self.operand(part, calls, function) for part in split(nodes, ("+", "<<", "+="))]
        count = 1
        for piece in pieces:
            count *= len(piece)
        if count <= MOST_ALTERNATIVES:
            return ["".join(way) for way in itertools.product(*pieces)]
        for piece in pieces:
            if len(piece) > 1:
                for way in piece:
                    self.add(way, next((n.line for n in nodes), 0), calls, function)
        return ["".join(piece[0] if len(piece) == 1 else VARIES for piece in pieces)]

    def operand(self, nodes, calls, function):
        """One summand: neighbouring literals, a call that only passes its text on, or something that varies."""
        begin = max((i + 1 for i, n in enumerate(nodes) if n.text in ("return", "=", ":", "==", "!=", "&&", "||", "case", "else",
                                                                     "<", "!")
                     and n.kind in ("sign", "name")), default=0)
        core = nodes[begin:]
        for node in nodes[:begin]:
            if node.kind == "group":
                self.walk(node, calls, function)
        if core and all(n.kind == "text" for n in core):
            return ["".join(n.text for n in core)]
        if core and core[-1].kind == "group" and all(n.kind == "name" or n.text == "::" for n in core[:-1]):
            group = core[-1]
            name = core[-2].text if len(core) > 1 else ""
            if group.sign in "({" and name in ("", "string", "string_view", "move") and "throw" not in (n.text for n in core):
                parts = list(split(group.children, (",", ";")))
                if len(parts) == 1 and not any(n.kind == "group" and n.sign == "{" for n in parts[0]):
                    return self.alternatives(parts[0], calls, function)
            if name == "format" and group.sign == "(":
                first, *rest = split(group.children, (",",))
                for part in rest:
                    self.take(part, calls, function)
                return [re.sub(r"\{\{|\}\}|\{[^{}]*\}", lambda m: m.group()[0] if m.group() in ("{{", "}}") else VARIES, way)
                        for way in self.alternatives(first, calls, function)]
        # Literals that are operands of something else, as "x"s or a "b" behind a comparison, stand alone.
        run = [n.text for n in core if n.kind == "text"]
        for node in core:
            if node.kind == "group":
                self.walk(node, calls, function)
        if run:
            self.add("".join(run), core[0].line, calls, function)
        return [VARIES]


def any_of(globs):
    return re.compile("|".join(f"(?:{fnmatch.translate(glob)})" for glob in globs))


IN_FILES = any_of(NOT_ERRORS_IN_FILES)
IN_FUNCTIONS = any_of(NOT_ERRORS_IN_FUNCTIONS)


def n_words(pattern):
    return len(re.findall(r"[A-Za-z]{2,}", pattern))


def is_error(sentence):
    if IN_FUNCTIONS.match(f"{sentence.file}:{sentence.function}"):
        return False
    if NOT_ERRORS.match(sentence.pattern) or NOT_ERRORS_IN_CALLS.intersection(sentence.calls):
        return False
    least = 2 if sentence.calls and any(ERROR_CALLS.match(call) for call in sentence.calls[-2:]) else 3
    return n_words(sentence.pattern) >= least and " " in sentence.pattern


def all_texts():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            file = str(path.relative_to(ROOT))
            if path.suffix in (".cpp", ".h", ".cu", ".cuh") and not IN_FILES.match(file):
                source = path.read_text()
                if TEXT_OF_WORDS.search(source):
                    yield from Reader(file, source).found


# The page. A comment before a block says whose messages the block lists: files, or FILE:FUNCTION, as glob patterns. Where
# several groups take a file, the longest pattern wins. Errors of our own go where "internal" is written.
BLOCK = re.compile(r"^<!-- messages: (?P<globs>[^>]*?) -->\n\n?```text\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{2,4} (?P<title>.*)$", re.MULTILINE)


def fixed_words(pattern):
    """The pieces of a pattern that a user can look for."""
    return [piece for piece in re.split(f" *{VARIES} *", pattern) if re.search("[A-Za-z]{2}", piece)]


def group_of(sentence, groups):
    """The globs of the group that a sentence belongs to; None: no group takes it."""
    if sentence.is_internal:
        return next((globs for globs in groups if "internal" in globs.split()), None)
    places = (sentence.file, f"{sentence.file}:{sentence.function}")
    fitting = [(len(glob), globs) for globs in groups for glob in globs.split()
               if any(fnmatch.fnmatchcase(place, glob) for place in places)]
    return max(fitting)[1] if fitting else None


def lines_of_group(patterns):
    """Sorted by their first fixed words, without those that others contain."""
    patterns = sorted(set(patterns), key=len, reverse=True)
    kept = []
    for pattern in patterns:
        if not any(pattern.strip(VARIES) in longer for longer in kept):
            kept.append(pattern)
    return sorted(kept, key=lambda pattern: (re.sub(r"[^a-z]", "", " ".join(fixed_words(pattern)).lower()), pattern))


def listed(page, sentences):
    """What each block of the page should list, by its globs, and the sentences that no block takes."""
    groups = {match["globs"]: [] for match in BLOCK.finditer(page)}
    homeless = []
    for sentence in sentences:
        globs = group_of(sentence, groups)
        if globs is None:
            homeless.append(sentence)
        else:
            groups[globs].append(sentence.pattern)
    return {globs: lines_of_group(patterns) for globs, patterns in groups.items()}, homeless


def rewritten(page, sentences):
    wanted, _ = listed(page, sentences)
    return BLOCK.sub(lambda match: f"<!-- messages: {match['globs']} -->\n\n```text\n" +
                     "".join(line + "\n" for line in wanted[match["globs"]]) + "```", page)


def faults_of_headings(page, sentences):
    """A heading in backticks quotes a message."""
    known = {piece for sentence in sentences for piece in fixed_words(sentence.pattern)}
    for match in HEADING.finditer(page):
        for quoted in re.findall("`([^`]*)`", match["title"]) if match["title"].startswith("`") else ():
            for piece in fixed_words(quoted):
                if not any(piece in words for words in known):
                    yield f'The heading "{match["title"]}" quotes "{piece}", which no message of the code says.'


def faults_of_page(page, sentences):
    """Sentences that say what is to be done to the page, with the lines to paste."""
    wanted, homeless = listed(page, sentences)
    titles = [(match.start(), match["title"]) for match in HEADING.finditer(page)]
    for match in BLOCK.finditer(page):
        title = [title for at, title in titles if at < match.start()][-1:] or ["the top"]
        have = match["lines"].splitlines()
        new = [line for line in wanted[match["globs"]] if line not in have]
        old = [line for line in have if line not in wanted[match["globs"]]]
        if new:
            yield f'Under "{title[0]}" these are missing:\n' + "\n".join(new)
        if old:
            yield f'Under "{title[0]}" these are said by nothing in the code any more; take them out:\n' + "\n".join(old)
        if have != wanted[match["globs"]] and not new and not old:
            yield f'Under "{title[0]}" the messages are not in order.'
    for sentence in homeless:
        yield (f"{sentence.file}:{sentence.line} says this, and no group takes the file's messages; add the file to the comment "
               f"<!-- messages: ... --> of the group where users meet it:\n{sentence.pattern}")
    yield from faults_of_headings(page, sentences)


def all_errors():
    return [sentence for sentence in all_texts() if is_error(sentence)]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--write", action="store_true", help="write the lists of docs/troubleshooting.md anew")
    options.add_argument("--list", action="store_true", help="print every sentence with its place in the code")
    options = options.parse_args()
    sentences = all_errors()
    if options.list:
        for sentence in sentences:
            print(f"{sentence.file}:{sentence.line}:{sentence.function}: {sentence.pattern}")
        return 0
    page = PAGE.read_text()
    if options.write:
        PAGE.write_text(rewritten(page, sentences))
        page = PAGE.read_text()
    faults = list(faults_of_page(page, sentences))
    for fault in faults:
        print(fault, end="\n\n")
    if faults:
        print(f"docs/troubleshooting.md is not in step with the code in {len(faults)} places. Say --write to have its lists written:\n"
              "  python3 tests/support/error_sentences.py --write\n"
              "If a text above is no error, add its file or function to NOT_ERRORS_... in tests/support/error_sentences.py. If it is a\n"
              "new kind of error, say under its heading what it means and what to do.")
        return 1
    print(f"docs/troubleshooting.md has all {len({s.pattern for s in sentences})} messages of the code")
    return 0


if __name__ == "__main__":
    sys.exit(main())
