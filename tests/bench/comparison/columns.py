"""A column of measurements: decode or prefill of so many tokens with so many threads, written `decode64@2`.

compare.py parses it from the command line; programs.py turns it into a program's options.
"""
import dataclasses
import re

# A short prompt takes a fraction of a second, so it is repeated until a run has read this many tokens.
TOKENS_OF_A_RUN = 128


@dataclasses.dataclass(frozen=True)
class Column:
    kind: str  # "decode": one token a step, from an almost empty context; "prefill": a prompt
    n_tokens: int
    n_threads: int

    def __str__(self):
        return f"{self.kind}{self.n_tokens}@{self.n_threads}"

    @property
    def repeats(self):
        """How often a program repeats the column in one run; the run counts as their median."""
        return max(1, TOKENS_OF_A_RUN // self.n_tokens) if self.kind == "prefill" else 1


def parse_column(text):
    """Throws ValueError with a message for the command line."""
    match = re.fullmatch(r"(decode|prefill)([1-9]\d{0,5})@([1-9]\d{0,3})", text)
    if not match:
        raise ValueError(
            f"{text!r} is no column; write decode64@2 or prefill256@2: what, how many tokens, @ threads")
    return Column(match[1], int(match[2]), int(match[3]))


def default_columns(n_cores):
    """Decoding with one thread and with all threads, prompts with all threads."""
    decode = [Column("decode", 64, n) for n in sorted({1, n_cores})]
    return decode + [Column("prefill", n, n_cores) for n in (32, 256, 1024)]
