"""Prints files and lines per folder at two commits, as the table in docs/decisions.md.

    tree_size.py BEFORE AFTER

Counted are text files. Data of tests (tests/data, tests/fuzz/corpus) is left out. "Side by side" is the largest number of files
in one folder of the tree, without its subfolders.
"""
import collections
import subprocess
import sys

DATA = ("tests/data/", "tests/fuzz/corpus/")
TOPS = ["server", "engine", "kernels", "profiler", "config", "docker", "tests", "docs"]


def git(*args):
    return subprocess.run(["git", *args], capture_output=True, check=True).stdout


def count(revision):
    """{top folder: [files, lines, {folder: files in it}]}"""
    found = {top: [0, 0, collections.Counter()] for top in TOPS + ["top level, hidden"]}
    entries = [line.split("\t") for line in git("ls-tree", "-r", revision).decode().splitlines()]
    entries = [(facts.split()[2], path) for facts, path in entries if not path.startswith(DATA)]
    blobs = subprocess.run(["git", "cat-file", "--batch"], input="".join(sha + "\n" for sha, _ in entries).encode(),
                           capture_output=True, check=True).stdout
    at = 0
    for _, path in entries:
        end = blobs.index(b"\n", at)
        size = int(blobs[at:end].split()[2])
        content = blobs[end + 1:end + 1 + size]
        at = end + 1 + size + 1
        if b"\0" in content:
            continue
        row = found[path.split("/")[0] if path.split("/")[0] in found else "top level, hidden"]
        row[0] += 1
        row[1] += content.count(b"\n")
        row[2][path.rpartition("/")[0]] += 1
    return found


def main():
    before, after = (count(revision) for revision in sys.argv[1:3])
    print("| folder | files before | after | lines before | after | side by side before | after |")
    print("|---|---|---|---|---|---|---|")
    for top, row in before.items():
        new = after[top]
        name = f"`{top}/`" if top in TOPS else top
        values = (row[0], new[0], row[1], new[1], max(row[2].values()), max(new[2].values()))
        print(f"| {name} |", " | ".join(f"{value:,}" for value in values), "|")
    totals = [sum(row[i] for row in table.values()) for i in (0, 1) for table in (before, after)]
    print("| all |", " | ".join(f"{value:,}" for value in totals), "| | |")


if __name__ == "__main__":
    main()
