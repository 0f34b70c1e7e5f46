"""Fails if README.md, a page of docs/, a DECISIONS.md or a comment names something that does not exist, or if
a page is too long.

Checked in pages: relative links and their anchors; paths in backticks and in shell examples; types and
functions in backticks (`ForwardPass`, `Backend::attention`, `for_each_piece()`), which must occur in the
code, and in the file or folder that is named with them ("`kArchitectures` in
`engine/model/architecture.cpp`", "`Sampler` (`engine/sampling/`)"); tests, by their functions (`test_wire`)
or by the beginnings of their names behind their file (`tests/x_test.cpp` ("a case")). Every page of docs/ is
listed in docs/README.md, and so is every DECISIONS.md; docs/api.md lists every endpoint of the API's
description. A page has at most MOST_WORDS words. An entry of a DECISIONS.md is one paragraph that begins in
bold, of at most MOST_ENTRY_LINES lines. Checked in code: paths of this tree, symbols that a comment names
with their file ("fixed_add() (kernels/sums.h)"), and words and spellings that are settled (SETTLED below).
Needs nothing but Python and git, and takes about a second. Run by ctest.
"""
import collections
import fnmatch
import json
import pathlib
import posixpath
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".py", ".in"}
# A file name without a folder is searched by its name if it ends in one of these. (Others, such as
# model.gguf, are the reader's files.)
OUR_SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".cmake"}

MOST_WORDS = 3000
MOST_ENTRY_LINES, MOST_COLUMNS = 5, 110

# Words that docs/glossary.md gives one meaning, and spelling: (files, what a line of them must not say, what
# to say instead).
SETTLED = [
    (r"(?:server|engine|profiler|kernels)/", r"\b(?:struct|class) (?:Steps?|Chunk|Worker) \{",
     "what it is: a call, an update, a shape, a piece; a step is one forward pass"),
    (r"(?:server/api|kernels)/", r"\b\w*Plan\b", "spec, or what it is; a plan says what lives where"),
    # An expert on a device has a slot too. In recurrent layers, a slot is a sequence's.
    (r"(?:engine/residency|kernels)/(?!.*expert|.*recurrent|cpu/cpu_backend)",
     r"(?i)(?<!fewer )(?<!batch\.)\b\w*slots?\b",
     "device row or entry; a slot belongs to a sequence"),
    (r"(?:engine/residency|kernels)/", r"(?i)worker", "thread; a worker is a thread of the server"),
    # The files that are left out have variables with that name.
    (r"(?:engine/residency|kernels)/(?!cuda/neurons/add_down\.cu|cuda/matmul/matmul_few\.cu|cpu/simd/down_)",
     r"(?i)(?<!cut into )chunk", "piece, slice or buffer; a chunk is the prompt tokens of one step"),
    # Checks comments for "block" without its kind. A line may begin with "block", because the kind may be the
    # last word of the line before.
    (r"engine/(?:residency|forward)/|kernels/(?:cuda/(?:attention|matmul/matmul_)"
     r"|cpu/(?:attention|cpu_backend|vector_kernels)|(?!dtype|mutex|trace)\w+\.h)",
     r"//.*(?<!KV )(?<![Tt]hread )(?<!eight )(?<!// )\b[Bb]locks?\b(?! table)",
     "KV block, weight block or thread block"),
    (r"engine/residency/", r"//.*\b(?:an?|the|its|their|this|that|each|every|one|free|of) places?\b",
     "index, offset or device row; to place is to carry out a placement"),
]
# The words of British spelling. Prompts that people wrote may have them.
SPELLING = re.compile(
    r"(?:behavi|col|fav|hon|neighb|harb|flav)our|^grey$|licence|centre|labelled(?!by)|modelled|catalogue"
    r"|analyse|spelt|ageing|(?:after|to)wards|(?:token|recogn|penal|minim|normal|optim|quant|determin|summar"
    r"|initial|organ|real|synchron)is(?:e|ing|ation)", re.IGNORECASE)
SPELLED_AS_WRITTEN = ("tests/", "profiler/activity/prompts/")

CODE_PATH = re.compile(r"(?<![\w./-])((?:server|engine|kernels|profiler|config|docker|tests|docs)/[\w./-]+"
                       r"\.(?:h|cpp|cu|cuh|py|md|sh|cmake|toml|txt))\b")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE_SPAN = re.compile(r"`([^`]+)`")
PATH = re.compile(r"^(?:\./)?[\w.+-]+(?:/[\w.*?+{},-]+)*/?$")
TYPE = re.compile(r"^[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+$")
QUALIFIED = re.compile(r"^[A-Z]\w*(?:::\w+)+$")
CALL = re.compile(r"^(?:[A-Za-z_]\w*::)*([A-Za-z_]\w*)\(\)$")
TEST = re.compile(r"^test_\w+$")
# A symbol named together with its file or folder: with backticks in pages, without in comments.
PLACED = re.compile(r"`((?:\w+::)*\w+)(?:\(\))?`,?(?: \(| in | of | is in )`([\w./-]+)`")
PATH_OF_SYMBOL = re.compile(r" \((?:server|engine|kernels|profiler|config)/")
PLACED_IN_CODE = re.compile(r"(?<![\w.:/])((?:\w+::)*\w+)(\(\))? \(((?:server|engine|kernels|profiler|"
                            r"config)/[\w./-]+\.(?:h|cpp|cu|cuh))\)")
CASES = re.compile(r'`(tests/[\w./]+_test\.cpp)` \(("[^)]*")\)')
WORD = re.compile(r"[A-Za-z_]\w*")


def tracked_files():
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                         cwd=ROOT, capture_output=True, text=True,
                         check=True).stdout
    return [line for line in out.splitlines() if (ROOT / line).is_file()]


class Tree:
    """What exists: files, folders, names of files, texts, and every word of the code."""

    def __init__(self, files):
        self.files = set(files)
        self.folders = {str(parent) for file in files for parent in pathlib.PurePosixPath(file).parents}
        self.names = {pathlib.PurePosixPath(file).name for file in files}
        self.tops = {file.split("/")[0] for file in files if "/" in file}
        self.texts = {}  # the code, and other files that are checked like code
        self.words_of = {}
        self.words = set()
        for file in files:
            suffix = pathlib.PurePosixPath(file).suffix
            if suffix not in CODE_SUFFIXES | {".sh", ".cmake", ".txt"}:
                continue
            self.texts[file] = (ROOT / file).read_text(errors="replace")
            self.words_of[file] = set(WORD.findall(self.texts[file]))
            if suffix in CODE_SUFFIXES and not file.startswith("tests/check_"):
                self.words |= self.words_of[file]

    def has(self, path):
        path = path.removeprefix("./").rstrip("/")
        braces = re.search(r"\{([^{}]*)\}", path)
        if braces:
            return all(self.has(path[:braces.start()] + part + path[braces.end():])
                       for part in braces.group(1).split(","))
        if "*" in path or "?" in path:
            return any(fnmatch.fnmatchcase(file, path) for file in self.files | self.folders)
        return path in self.files or path in self.folders

    def is_ours(self, path):
        """Whether a word looks like a path in this tree."""
        if not PATH.match(path):
            return False
        path = path.removeprefix("./")
        return "/" in path and path.split("/")[0] in self.tops


def lines_of(text):
    """(number, line, language of its fenced block or None)"""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fence = None if fence is not None else line.strip()[3:].strip()
            continue
        yield number, line, fence


def anchors_of(text):
    anchors, seen = set(), collections.Counter()
    for _, line, fence in lines_of(text):
        if fence is None and line.startswith("#"):
            title = re.sub(r"[`*]", "", line.lstrip("#").strip()).lower()
            slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            anchors.add(slug if not seen[slug] else f"{slug}-{seen[slug]}")
            seen[slug] += 1
    return anchors


def faults_of_link(page, target, tree):
    if re.match(r"[a-z]+:", target):
        return
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.is_relative_to(ROOT) or not tree.has(str(file.relative_to(ROOT))):
        yield f"links to {path}, which is not there"
    elif anchor and file.suffix == ".md" and anchor not in anchors_of(file.read_text()):
        yield f"links to the heading #{anchor}, which {file.name} does not have"


def faults_of_span(span, tree):
    word = span.split(":")[0] if re.search(r":\d+$", span) else span
    if tree.is_ours(word):
        if not tree.has(word):
            yield f"names the path {word}, which is not there"
    elif re.match(r"^[\w.-]+$", word) and pathlib.PurePosixPath(word).suffix in OUR_SUFFIXES:
        if word not in tree.names:
            yield f"names the file {word}, which is not there"
    elif TYPE.match(word) or QUALIFIED.match(word):
        for part in word.split("::"):
            if part not in tree.words:
                yield f"names {word}, which the code does not have"
                break
    elif TEST.match(word):
        if word not in tree.words:
            yield f"names the test {word}, which is not there"
    elif CALL.match(word):
        if CALL.match(word).group(1) not in tree.words:
            yield f"names {word}, which the code does not have"


def is_symbol(word):
    """Whether a word of a comment is a name from the code rather than an English word."""
    return "::" in word or "_" in word or re.search(r"[a-z][A-Z]", word) is not None


def faults_of_placed(symbol, path, tree):
    """Yields a fault unless the file (or a file of the folder) has the symbol."""
    path = path.removeprefix("./").rstrip("/")
    files = [path] if path in tree.files else [file for file in tree.files if file.startswith(path + "/")]
    files = [file for file in files
             if pathlib.PurePosixPath(file).suffix in CODE_SUFFIXES | {".sh", ".cmake", ".txt"}]
    # A header stands for its source file too: "x.h" is the module x.
    files += [file.removesuffix(".h") + ".cpp"
              for file in files if file.endswith(".h") and file.removesuffix(".h") + ".cpp" in tree.files]
    name = symbol.split("::")[-1]
    if files and not any(re.search(rf"\b{re.escape(name)}\b", (ROOT / file).read_text(errors="replace"))
                         for file in files):
        yield f"says that {path} has {symbol}, which it does not"


def faults_of_cases(line, tree):
    for file, names in CASES.findall(line):
        if tree.has(file):
            text = (ROOT / file).read_text()
            for name in re.findall(r'"([^"]+)"', names):
                if f'"{name.removesuffix(" ...")}' not in text:
                    yield f"names the test case \"{name}\", which {file} does not have"


def faults_of_page(page, tree):
    for number, line, fence in lines_of(page.read_text()):
        found = []
        if fence is None:
            spans = CODE_SPAN.findall(line)
            for target in LINK.findall(CODE_SPAN.sub("", line)):
                found += faults_of_link(page, target, tree)
            found += faults_of_cases(line, tree)
            found += [f for symbol, path in PLACED.findall(line)
                      for f in faults_of_placed(symbol, path, tree)]
            for span in spans:
                found += faults_of_span(span, tree)
                if " " in span:  # a command
                    found += [f for word in span.split() if tree.is_ours(word)
                              for f in faults_of_span(word, tree)]
        elif fence in ("sh", "bash"):
            found += [f for word in line.split("#")[0].split() if tree.is_ours(word)
                      for f in faults_of_span(word, tree)]
        for fault in found:
            yield f"{page.relative_to(ROOT)}:{number}: {fault}"


def faults_of_length(page, name):
    """Yields a fault if the page is too long."""
    words = len(page.read_text().split())
    if words > MOST_WORDS:
        yield f"{name}: has {words} words; shorten it to {MOST_WORDS}"


def faults_of_entries(text, name):
    """Yields the faults of the entries of a DECISIONS.md: its paragraphs after the first heading of level
    2."""
    number, in_entries = 1, False
    for block in text.split("\n\n"):
        lines = block.strip("\n").split("\n")
        if block.startswith("## "):
            in_entries = True
            lines = lines[1:]
        if in_entries and lines and not lines[0].startswith("**"):
            yield (f"{name}:{number}: begins no entry; an entry is one paragraph that begins in bold, "
                   "after an empty line")
        if in_entries and len(lines) > MOST_ENTRY_LINES:
            yield f"{name}:{number}: an entry of {len(lines)} lines; shorten it to {MOST_ENTRY_LINES}"
        number += block.count("\n") + 2
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MOST_COLUMNS:
            yield f"{name}:{number}: a line of {len(line)} columns; wrap it at {MOST_COLUMNS}"


def listed_endpoints(page):
    """The endpoints in the table of a page, as "POST /v1/completions". A path without a method has the one
    before it."""
    rows = page.split("| endpoint | |")[1].split("\n\n")[0].splitlines()
    for row in rows:
        method = None
        for span in re.findall(r"`([^`]+)`", row.split(" | ")[0]):
            *methods, path = span.split()
            method = methods[0] if methods else method
            yield f"{method} {path}"


def faults_of_endpoints():
    """docs/api.md lists the endpoints of the API's description, which a test compares with the server's
    table."""
    described = json.loads((ROOT / "server/api/description/openapi.json").read_text())["paths"]
    served = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    listed = set(listed_endpoints((ROOT / "docs/api.md").read_text()))
    yield from (f"docs/api.md: the table of endpoints lacks {row}" for row in sorted(served - listed))
    yield from (f"docs/api.md: the table of endpoints has {row}, which is not served"
                for row in sorted(listed - served))


def faults_of_code(tree):
    british = {word for words in tree.words_of.values() for word in words if SPELLING.search(word)}
    for file, text in sorted(tree.texts.items()):
        if file.startswith(("tests/data/", "tests/fuzz/corpus/", "tests/check_docs.py")):
            continue
        settled = [(re.compile(word), say) for where, word, say in SETTLED
                   if re.match(where, file) and not file.startswith("tests/") and re.search(word, text)]
        if not file.startswith(SPELLED_AS_WRITTEN) and not british.isdisjoint(tree.words_of[file]):
            settled.append((SPELLING, "American spelling"))
        places_symbols = PATH_OF_SYMBOL.search(text)
        for number, line in enumerate(text.splitlines(), 1):
            for path in CODE_PATH.findall(line) if "/" in line else []:
                if not tree.has(path):
                    yield f"{file}:{number}: names the path {path}, which is not there"
            for symbol, call, path in PLACED_IN_CODE.findall(line) if places_symbols else []:
                if call or is_symbol(symbol):
                    for fault in faults_of_placed(symbol, path, tree):
                        yield f"{file}:{number}: {fault}"
            for word, say in settled:
                if word.search(line):
                    yield f"{file}:{number}: says {word.search(line).group(0)!r}; say {say}"


def main():
    tree = Tree(tracked_files())
    names = ["README.md", *sorted(file for file in tree.files
                                  if file.endswith("/DECISIONS.md") or re.fullmatch(r"docs/[^/]+\.md", file))]
    faults = [fault for name in names for fault in faults_of_page(ROOT / name, tree)]
    faults += [fault for name in names for fault in faults_of_length(ROOT / name, name)]
    faults += [fault for name in names if name.endswith("/DECISIONS.md")
               for fault in faults_of_entries((ROOT / name).read_text(), name)]
    index = (ROOT / "docs" / "README.md").read_text()
    faults += [f"docs/README.md: does not list {name}" for name in names[1:]
               if name != "docs/README.md" and f"({posixpath.relpath(name, 'docs')})" not in index]
    faults += faults_of_endpoints()
    faults += faults_of_code(tree)
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(f"{len(faults)} names or words to mend")
    print(f"{len(names)} pages and {len(tree.files)} files name only what there is")


if __name__ == "__main__":
    main()
