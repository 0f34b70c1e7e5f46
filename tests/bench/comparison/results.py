"""The file of results: what was compared, and one record for each run of a program. It is written after every
run, so that a stopped comparison continues where it was.

    {"setup": {"machine": ..., "models": {type: bytes},
               "programs": {"hearth@native": {"command": ..., "sha256": ...}}},
     "records": [{"round": 1, "isa": "native", "type": "Q4_0", "column": "decode64@2", "program": "hearth",
                  "tokens_per_s": ..., "seconds": ..., "other_cpus": ..., "build": ...}, ...]}

A record of Hearth also has `bytes_per_token`, which decoding one token reads, and `read_bytes_per_s`, the
memory's speed measured right after. A record of a run that failed has `error`, a sentence, instead of the
speed.
"""
import json
import os
import pathlib

KEY = ("round", "isa", "type", "column", "program")


class OtherSetup(Exception):
    """The file has results for another machine, model or build. The message is a sentence."""


def key_of(record):
    return tuple(record[field] for field in KEY)


class Results:
    """Not safe for several processes at once."""

    def __init__(self, setup, records=(), path=None):
        self.setup, self.records, self.path = setup, list(records), path

    @classmethod
    def read(cls, path):
        """Throws OSError, or ValueError with a sentence."""
        try:
            found = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
            return cls(found["setup"], found["records"], pathlib.Path(path))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: is no result of compare.py run: {error!r}") from error

    @classmethod
    def resume(cls, path, setup):
        """The results in the file with this setup's programs and models added to its own; empty ones if there
        is no file.

        Throws OtherSetup, and what read() throws.
        """
        path = pathlib.Path(path)
        if not path.exists():
            return cls(setup, path=path)
        results = cls.read(path)
        for part in ("programs", "models"):
            for name, now in setup[part].items():
                if results.setup[part].setdefault(name, now) != now:
                    raise OtherSetup(f"{path}: was measured with another {name}; give --out another "
                                     "file, or remove this one")
        if results.setup["machine"] != setup["machine"]:
            raise OtherSetup(
                f"{path}: was measured on another machine; give --out another file, or remove this one")
        return results

    def done(self):
        """The keys of the runs that succeeded. A failed one is tried again."""
        return {key_of(record) for record in self.records if "error" not in record}

    def add(self, record):
        """Replaces an earlier record of the same run, and writes the file."""
        self.records = [old for old in self.records if key_of(old) != key_of(record)] + [record]
        self.write()

    def write(self):
        if self.path is None:
            return
        lines = ",\n".join(json.dumps(record) for record in self.records)
        unfinished = self.path.with_name(self.path.name + ".part")
        unfinished.write_text(f'{{"setup": {json.dumps(self.setup, indent=1)},\n"records": [\n{lines}\n]}}\n',
                              encoding="utf-8")
        os.replace(unfinished, self.path)
