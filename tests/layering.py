"""Fails if a file breaches the architecture: the folders that it may include, and the libraries that it may
use.

Dependencies point one way, server -> profiler -> engine -> kernels; config is beside them. config and kernels
include no other folder of this project. The HTTP library is in one short file, the seam that fits all its
versions; JSON only where bytes become structs. CUDA's headers and .cu files are only under kernels/cuda, and
under tests; other folders may include only those headers of kernels/cuda that do not need CUDA. Kernels cast
pointers where the emulator checks their alignment. A library is named after its folder and links what its
files include. Also fails if the top level gets another folder. Run by ctest.
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
# The rooms (subfolders that are layers) of each folder, the lowest first: a room includes only itself and
# those before it. "." is the folder's own files, "main" its main.cpp.
ROOMS = {
    "kernels": ["base", ".", "quant", "cpu", "cuda"],
    "kernels/cpu": ["threads", "isa", "lanes", "simd", "scalar", "avx2", "avx512", "avxvnni", "amx", "neon",
                    "matmul", "experts", "."],
    "kernels/cuda": ["ops", "runtime", "rows", "matmul", "attention", "recurrent", "neurons", "experts",
                     "streaming", "hybrid", "bench", "."],
    "engine": ["model", "text", "tokenizer", "constraint", "kv", "step", "neurons", "activity", "forward",
               "residency", "placement", "sampling", "speculation", "serving", "generation", "."],
    "profiler": ["convert", "import", "quantize", "activity", "machine",
                 "placement", "synthesis", "plan", "replay", "bench",
                 "calibration", "predictors", "report", "simulation", "store", ".", "options", "commands",
                 "main"],
    "server": ["json", "process", "http", "jinja", "chat", "api", "page", "endpoints", "metrics", "gate",
               "models", "terminal", "."],
    "config": [".", "manual"],
}
ROOMS_ARE_LIBRARIES = ("profiler", "server")  # elsewhere a folder's rooms are in the library of the folder
TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE",
             "server", "engine", "kernels", "profiler",
             "config", "docker", "tests", "docs"}
MAX_LINES = 700
HTTP_SEAM = "server/http/message/http_framing.cpp"  # the one file that includes cpp-httplib
MAX_SEAM_LINES = 100
CUDA_HEADER = re.compile(
    r"(cuda|cublas|nv/|crt/|cooperative_groups|driver_types|vector_types|device_launch|cub/|thrust/)")
NAMESPACE = re.compile(r"^namespace (hearth[\w:]*) \{", re.MULTILINE)
TYPE = re.compile(r"^(?:struct|class) (\w+)(?: final)?(?: :[^;{]*)? \{", re.MULTILINE)
LIBRARY = re.compile(r"^\s*add_library\((\w+) STATIC", re.MULTILINE)
PROGRAM = re.compile(r"^add_executable\(([\w-]+)", re.MULTILINE)
LINKS = re.compile(r"^\s*target_link_libraries\(([\w-]+)\s([^)]*)\)", re.MULTILINE)
# Casts to types wider than a byte.
WIDE_CAST = re.compile(r"\b(?:reinterpret|static)_cast<(?!(?:const )?(?:u?int8_t|std::byte)\*)[^()]*\*>")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def tracked_files():
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [pathlib.PurePosixPath(line) for line in out.splitlines()]


def may_have_cuda(path):
    return path.parts[:2] == ("kernels", "cuda") or path.parts[0] == "tests"


def reads_schemas(path):
    """JSON schemas are translated in the engine; headers show no JSON."""
    return path.parts[:2] == ("engine", "constraint") and path.suffix == ".cpp"


def room_of(path, folder):
    """The room of `folder` that contains a file; None if the file is elsewhere."""
    if not path.startswith(folder + "/"):
        return None
    rest = path[len(folder) + 1:].split("/")
    if len(rest) > 1:
        return rest[0]
    return "main" if rest[0] == "main.cpp" and "main" in ROOMS[folder] else "."


def room_includes(texts):
    """(folder, room, included room, file, included file) for every include from one room to another within a
    folder."""
    for path, text in texts.items():
        for _, target in INCLUDE.findall(text):
            for folder in ROOMS:
                room, other = room_of(str(path), folder), room_of(target, folder)
                if room and other and room != other:
                    yield folder, room, other, path, target


def back_edges(texts):
    for path in texts:
        for folder, rooms in ROOMS.items():
            room = room_of(str(path), folder)
            if room and room not in rooms:
                yield f"{path}: is in a subfolder of {folder}/ that the order lacks; add it to ROOMS"
    for folder, room, other, path, target in room_includes(texts):
        rooms = ROOMS[folder]
        if room in rooms and other in rooms and rooms.index(other) > rooms.index(room):
            yield f"{path}: includes {target}, but in {folder}/ the subfolder {other} is above {room}"


def print_rooms(texts):
    for folder, rooms in ROOMS.items():
        counts = {}
        for of, room, other, _, _ in room_includes(texts):
            if of == folder:
                counts[room, other] = counts.get((room, other), 0) + 1
        back = sum(n for (room, other), n in counts.items() if rooms.index(other) > rooms.index(room))
        print(f"{folder}/: {len(rooms)} rooms, {sum(counts.values())} includes between them, "
              f"{back} against the order")
        for room in rooms:
            below = [f"{other} {counts[room, other]}" for other in rooms if (room, other) in counts]
            print(f"  {room:12} includes {', '.join(below) or 'no other room'}")


def headers_that_need_cuda(texts):
    """The headers of kernels/cuda that include CUDA's headers, directly or through others."""
    includes = {str(path): INCLUDE.findall(text) for path, text in texts.items()
                if path.parts[:2] == ("kernels", "cuda") and path.suffix in (".h", ".cuh")}
    found = {path for path, targets in includes.items()
             if any(b == "<" and CUDA_HEADER.match(t) for b, t in targets)}
    while True:
        more = {path for path, targets in includes.items() if any(t in found for _, t in targets)} - found
        if not more:
            return found
        found |= more


def breaches_of(path, text, needs_cuda):
    folder = path.parts[0]
    for bracket, target in INCLUDE.findall(text):
        first = target.split("/")[0]
        if bracket == '"' and "/" not in target:
            yield f'includes "{target}" without its folder; write the path from the root'
        if folder in MAY_INCLUDE and first in MAY_INCLUDE and first not in MAY_INCLUDE[folder]:
            yield f"includes {target}, but {folder}/ may only use {', '.join(sorted(MAY_INCLUDE[folder]))}"
        if first == "nlohmann" and folder in ("kernels", "engine", "config") and not reads_schemas(path):
            yield ("includes the JSON library, which belongs in server/, profiler/ and the .cpp files "
                   "of engine/constraint/")
        if bracket == "<" and CUDA_HEADER.match(target) and not may_have_cuda(path):
            yield f"includes {target} outside kernels/cuda"
        if target in needs_cuda and not may_have_cuda(path):
            yield f"includes {target}, which includes CUDA's headers; take what kernels/cuda has without them"
    if str(path) != HTTP_SEAM and any(target.startswith("httplib") for _, target in INCLUDE.findall(text)):
        yield f"includes the HTTP library; only {HTTP_SEAM} may"
    if str(path) == HTTP_SEAM and text.count("\n") > MAX_SEAM_LINES:
        yield (f"has {text.count(chr(10))} lines, over {MAX_SEAM_LINES}; it adapts the HTTP library "
               "and does nothing else")
    if path.suffix in (".cu", ".cuh") and not may_have_cuda(path):
        yield "is CUDA outside kernels/cuda"
    if path.suffix in (".cu", ".cuh") and folder == "kernels":
        for cast in WIDE_CAST.findall(text):
            yield (f"has {cast}, whose alignment nothing checks; use gpu_aligned<T>() of "
                   "kernels/cuda/runtime/gpu.h")
    if text.count("\n") > MAX_LINES:
        yield f"has {text.count(chr(10))} lines, over {MAX_LINES}; split it by ideas"


class Libraries:
    """The libraries and programs of CMake's files, by folder, and what they link."""

    def __init__(self, files):
        # names: of the library in a folder
        self.names, self.programs, self.links, self.public = {}, {}, {}, {}
        for path in files:
            if path.name != "CMakeLists.txt" or path.parts[0] not in MAY_INCLUDE:
                continue
            text = (ROOT / path).read_text(encoding="utf-8")
            self.names[str(path.parent)] = set(LIBRARY.findall(text))
            self.programs[str(path.parent)] = PROGRAM.findall(text)
            for name, words in LINKS.findall(text):
                kind = "PUBLIC"
                for word in words.split():
                    kind = word if word in ("PUBLIC", "PRIVATE", "INTERFACE") else kind
                    self.links.setdefault(name, set()).add(word)
                    if kind != "PRIVATE":
                        self.public.setdefault(name, set()).add(word)

    def home(self, path):
        """The library or program that compiles a file, or the files that include this header."""
        path = pathlib.PurePosixPath(path)
        for folder in map(str, path.parents):
            names = (sorted(self.names.get(folder, ())) if path.name != "main.cpp"
                     else self.programs.get(folder))
            if names or self.programs.get(folder):
                return (names or self.programs[folder])[0]
        return None

    def reach(self, name):
        """What a library or program links, and what that passes on."""
        found, new = set(), self.links.get(name, set())
        while new:
            found |= new
            new = set().union(*(self.public.get(other, set()) for other in new)) - found
        return found

    def problems(self, texts):
        for folder, names in self.names.items():
            for name in names - {"hearth_" + pathlib.PurePosixPath(folder).name}:
                yield f"{folder}/CMakeLists.txt: the library {name} is not named after its folder"
        for top in ROOMS_ARE_LIBRARIES:
            for room in set(ROOMS[top]) - {".", "main"}:
                if not self.names.get(f"{top}/{room}"):
                    yield f"{top}/{room}: has no CMakeLists.txt with a library"
        reach = {}
        for path, text in texts.items():
            if path.parts[0] not in MAY_INCLUDE:
                continue
            home = self.home(path)
            for _, target in INCLUDE.findall(text):
                other = self.home(target) if target.split("/")[0] in MAY_INCLUDE else None
                if other and other != home and other not in reach.setdefault(home, self.reach(home)):
                    yield f"{path}: includes {target}, but {home} does not link {other}"


def repeated_types(texts):
    """Types with the same name in two headers of a namespace: the linker silently uses one type's functions
    for both."""
    homes = {}
    for path, text in texts.items():
        spaces = NAMESPACE.findall(text)
        if path.suffix == ".h" and path.parts[0] in MAY_INCLUDE and len(spaces) == 1:
            for name in TYPE.findall(text):
                homes.setdefault((spaces[0], name), []).append(path)
    for (space, name), paths in homes.items():
        # Lanes is in an unnamed namespace, in one file for each instruction set
        if len(paths) > 1 and name != "Lanes":
            yield f"{paths[1]}: defines {space}::{name}, which {paths[0]} defines too; give one another name"


def repeated_names(files):
    """Product files with the same base name in two folders, which cannot be opened by name. A header and its
    source share theirs."""
    homes = {}
    for path in files:
        if (path.parts[0] in MAY_INCLUDE and path.suffix in (".h", ".cpp", ".cu", ".cuh")
            and path.name != "main.cpp"):
            homes.setdefault(path.stem, set()).add(path.parent)
    for stem, folders in homes.items():
        if len(folders) > 1:
            yield (f"{stem}: is a file's name in {' and '.join(sorted(map(str, folders)))}; "
                   "give one another name")


def main():
    problems = []
    files = tracked_files()
    for path in files:
        if path.parts[0] not in TOP_LEVEL and not path.parts[0].startswith("."):
            problems.append(f"{path}: is at the top level beyond the layout")
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in files
             if path.suffix in (".h", ".cpp", ".cu", ".cuh")}
    if sys.argv[1:] == ["--rooms"]:
        print_rooms(texts)
        return 0
    needs_cuda = headers_that_need_cuda(texts)
    for path, text in texts.items():
        problems += [f"{path}: {breach}" for breach in breaches_of(path, text, needs_cuda)]
    problems += Libraries(files).problems(texts)
    problems += repeated_types(texts)
    problems += back_edges(texts)
    problems += repeated_names(files)
    print("\n".join(problems) or f"{len(files)} files keep the layering")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
