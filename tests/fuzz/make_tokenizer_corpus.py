"""Writes the seeds of fuzz_tokenizer into tests/fuzz/corpus/tokenizer: one for each kind of vocabulary and of
problem.

Needs only Python. The files are committed; run this again after adding a seed.
"""
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus" / "tokenizer"
NORMAL, UNKNOWN, CONTROL, USER, UNUSED = 1, 2, 3, 4, 5
SENTENCEPIECE, ALL_BYTES, UNK, BOS, PREFIX = 1, 2, 4, 8, 16
CHARACTER_BPE, WORDPIECE, UNIGRAM, MAPPED_UNIGRAM = 32, 32 + 64, 32 + 128, 32 + 192
LOWER, STRIP, MERGE_SPACES = 1, 16, 1


def rows(*items):
    out = bytes([len(items)])
    for text, kind, score in items:
        # The first byte is the length times eight, plus a number that makes it the type modulo six.
        head = next(h for h in range(len(text) * 8, len(text) * 8 + 8) if h % 6 == kind)
        out += bytes([head, score & 0xFF]) + text
    return out


def merges(*items):
    return bytes([len(items)]) + b"".join(bytes([len(item)]) + item for item in items)


TEXT = "I'll see 1234 caf\u00e9 \u4e2d\u6587 \U0001f642\r\n\n  <x>aab ".encode()
BAD = b"ab\xff\xc0\xaf\xed\xa0\x80\xf0\x9f \xe2\x82"
BPE_ROWS = rows((b"ab", NORMAL, 0), (b"aab", NORMAL, 0), (b"<x>", CONTROL, 0), (b"see", USER, 0))
BPE_MERGES = merges(b"a b", b"a ab", b"\xc4\xa0 \xc4\xa0", b"< x", b"<x >")
SPACE = "\u2581".encode()
SP_ROWS = rows((b"<unk>", UNKNOWN, 0), (SPACE, NORMAL, -9), (b"a", NORMAL, -8),
               (b"aa", UNUSED, -1), (b"aab", NORMAL, -2),
               (SPACE + b"a", NORMAL, -3), (b"b" + SPACE, NORMAL, -3), (b"<x>", CONTROL, 0))

CHARACTER_ROWS = rows(
    (b"<unk>", UNKNOWN, 0), (SPACE, NORMAL, 0), (b"a", NORMAL, 0), (b"b", NORMAL, 0), (b"ab", NORMAL, 0),
    (SPACE + b"ab", NORMAL, 0), (b"\n\n", NORMAL, 0), (b"<x>", CONTROL, 0), (b"see", USER, 0))
CHARACTER_MERGES = merges(b"a b", SPACE + b" ab", "\u00e9 x".encode(), b"1 2")
WORD_ROWS = rows((SPACE + b"a", NORMAL, 0), (b"a", NORMAL, 0),
                 (b"ab", NORMAL, 0), (SPACE + b"see", NORMAL, 0),
                 (SPACE + "\u4e2d".encode(), NORMAL, 0), (SPACE + b"cafe", NORMAL, 0), (b"<x>", CONTROL, 0),
                 (b"1", NORMAL, 0))
UNIT = lambda number: number.to_bytes(4, "little")
# Maps "a" to "xy": the root, the child, and its value.
MAP = bytes([128]) + b"".join(UNIT({0: 1 << 10, 1 ^ 97: 97 | 256 | 2 << 10, 1 ^ 97 ^ 2: 1 << 31}.get(i, 0))
                              for i in range(128))
MAP += bytes([2]) + b"xy"

SEEDS = {f"bpe_{pre}": bytes([ALL_BYTES | BOS, pre]) + BPE_ROWS + BPE_MERGES + TEXT for pre in range(23)}
SEEDS |= {
    "bpe_invalid_utf8": bytes([ALL_BYTES, 3]) + BPE_ROWS + BPE_MERGES + BAD,
    "bpe_few_bytes": bytes([0, 1]) + BPE_ROWS + BPE_MERGES + TEXT,
    "bpe_long_word": bytes([ALL_BYTES, 1]) + BPE_ROWS + BPE_MERGES + b"a" * 100 + b"b" * 80,
    "bpe_bad_merge": bytes([ALL_BYTES, 1]) + BPE_ROWS + merges(b"ab") + TEXT,
    "sentencepiece": bytes([SENTENCEPIECE | ALL_BYTES | UNK | BOS | PREFIX]) + SP_ROWS + TEXT,
    "sentencepiece_no_bytes": bytes([SENTENCEPIECE | PREFIX]) + SP_ROWS + TEXT,
    "sentencepiece_invalid_utf8": bytes([SENTENCEPIECE | ALL_BYTES]) + SP_ROWS + BAD,
    "character_bpe": bytes([CHARACTER_BPE | ALL_BYTES | BOS]) + CHARACTER_ROWS + CHARACTER_MERGES + TEXT,
    "character_bpe_no_bytes": bytes([CHARACTER_BPE]) + CHARACTER_ROWS + CHARACTER_MERGES + TEXT,
    "character_bpe_invalid_utf8": bytes([CHARACTER_BPE | ALL_BYTES]) + CHARACTER_ROWS + CHARACTER_MERGES
                                  + BAD,
    "wordpiece": bytes([WORDPIECE | LOWER | STRIP | BOS]) + WORD_ROWS + TEXT,
    "wordpiece_cased": bytes([WORDPIECE]) + WORD_ROWS + TEXT,
    "wordpiece_long_word": bytes([WORDPIECE]) + WORD_ROWS + b"a" * 100 + b" " + b"a" * 101,
    "wordpiece_invalid_utf8": bytes([WORDPIECE | LOWER | STRIP]) + WORD_ROWS + BAD,
    "unigram": bytes([UNIGRAM | PREFIX | MERGE_SPACES]) + SP_ROWS + TEXT,
    "unigram_bytes": bytes([UNIGRAM | ALL_BYTES | BOS]) + SP_ROWS + TEXT,
    "unigram_invalid_utf8": bytes([UNIGRAM | ALL_BYTES]) + SP_ROWS + BAD,
    "unigram_mapped": bytes([MAPPED_UNIGRAM | PREFIX | MERGE_SPACES]) + MAP + SP_ROWS + TEXT,
    "empty": b"",
}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in SEEDS.items():
        (FOLDER / name).write_bytes(data)
    print(f"{len(SEEDS)} seeds in {FOLDER}")


main()
