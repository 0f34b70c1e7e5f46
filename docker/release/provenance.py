"""Writes the provenance of a release: a statement of in-toto with SLSA's predicate, version 1, which names
each file of SHA256SUMS, and the commit and the command that made it.

Called by docker/release.sh; writes to standard output. The statement is not signed. On GitHub,
.github/workflows/release.yml lets the action attest-build-provenance sign one for the same files.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re


def subjects(sums):
    """The files that SHA256SUMS lists, as in-toto names them."""
    found = []
    for line in sums.read_text().splitlines():
        matched = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line)
        if matched is None:
            raise SystemExit(f"provenance.py: {sums}: expected a SHA-256 and a file's name, found \"{line}\"")
        found.append({"name": matched[2], "digest": {"sha256": matched[1]}})
    return found


def statement(sums, commit, source, gpus):
    """source: the address of the repository, or empty if it is not known."""
    place = source or "file:///src"
    run = os.environ.get("GITHUB_RUN_ID")
    builder = f"{source}/actions/runs/{run}" if run else f"urn:hearth:machine:{platform.node()}"
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects(sums),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{place}#docker/release.sh",
                "externalParameters": {"commit": commit, "gpus": gpus},
                "resolvedDependencies": [{"uri": f"git+{place}", "digest": {"gitCommit": commit}}],
            },
            "runDetails": {
                "builder": {"id": builder},
                "metadata": {"finishedOn": datetime.datetime.now(datetime.timezone.utc)
                             .strftime("%Y-%m-%dT%H:%M:%SZ")},
            },
        },
    }


def main():
    parser = argparse.ArgumentParser(description="Writes the provenance of the files in SHA256SUMS.")
    parser.add_argument("--sums", type=pathlib.Path, required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--source", default="")
    parser.add_argument("--gpus", default="")
    options = parser.parse_args()
    print(json.dumps(statement(options.sums, options.commit, options.source, options.gpus), indent=1))


if __name__ == "__main__":
    main()
