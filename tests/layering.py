"""Fails on a breach of the architecture: who may include whom, and where libraries may appear.

Dependencies point one way, server -> profiler -> engine -> kernels; config stands beside them and includes nothing of
ours; so do kernels. The HTTP library is in one file of server/, JSON only where bytes become structs, CUDA's headers
only under kernels/cuda. Also holds the top level to the folders there are. Run by ctest.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAY_INCLUDE = {
    "kernels": {"kernels"},
    "config": {"config"},
    "engine": {"engine", "kernels"},
    "profiler": {"profiler", "engine", "kernels", "config"},
    "server": {"server", "profiler", "engine", "kernels", "config"},
}
TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", "server", "engine", "kernels", "profiler",
             "config", "docker", "tests", "docs"}
MAX_LINES = 500
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def tracked_files():
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [pathlib.PurePosixPath(line) for line in out.splitlines()]


def breaches_of(path, text):
    folder = path.parts[0]
    for bracket, target in INCLUDE.findall(text):
        first = target.split("/")[0]
        if bracket == '"' and "/" not in target:
            yield f'includes "{target}" without its folder; write the path from the root'
        if folder in MAY_INCLUDE and first in MAY_INCLUDE and first not in MAY_INCLUDE[folder]:
            yield f"includes {target}, but {folder}/ may only use {', '.join(sorted(MAY_INCLUDE[folder]))}"
        if first == "nlohmann" and folder in ("kernels", "engine", "config"):
            yield "includes the JSON library, which belongs in server/ and profiler/"
        if first in ("cuda_runtime.h", "cuda.h", "cublas_v2.h", "cuda_fp16.h") and path.parts[:2] != ("kernels", "cuda"):
            if folder != "tests":
                yield f"includes {target} outside kernels/cuda"
    if text.count("\n") > MAX_LINES:
        yield f"has {text.count(chr(10))} lines, over {MAX_LINES}; split it by ideas"


def main():
    problems, http_users = [], []
    files = tracked_files()
    for path in files:
        if path.parts[0] not in TOP_LEVEL and not path.parts[0].startswith("."):
            problems.append(f"{path}: is at the top level beyond the layout")
        if path.suffix not in (".h", ".cpp", ".cu", ".cuh"):
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        problems += [f"{path}: {breach}" for breach in breaches_of(path, text)]
        if path.parts[0] != "tests" and re.search(r"#\s*include\s*<httplib", text):
            http_users.append(path)
    if len(http_users) > 1 or any(path.parts[0] != "server" for path in http_users):
        problems.append(f"the HTTP library is included in {', '.join(map(str, http_users))}; one file of server/ may")
    print("\n".join(problems) or f"{len(files)} files keep the layering")
    return 1 if problems else 0


sys.exit(main())
