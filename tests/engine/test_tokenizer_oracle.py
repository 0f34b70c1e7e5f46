"""Tokenizers against the libraries that define them: PyPI's `tokenizers` for byte-level BPE, built here from
the model file's own tokens and merges, for BPE over characters and WordPiece, and `sentencepiece` for its BPE
and for unigram models; these are trained here on text written here.

The C++ side is tests/tokenize_tool, found through HEARTH_BUILD_DIR; one process answers all questions on a
model. The default model comes from HEARTH_TEST_MODEL or the cache that server/run.sh fills.
"""
import contextlib
import functools
import json
import os
import pathlib
import random
import subprocess
import unicodedata

import gguf
import pytest
import sentencepiece
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HEARTH_BUILD_DIR", ROOT / "build/release"))
TOOL = BUILD / "tests/tokenize_tool"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "hearth"
SMOLLM2 = pathlib.Path(os.environ.get("HEARTH_TEST_MODEL") or CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf")
N_RANDOM = 1500

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not built")

TEXTS = [
    "", " ", "  ", "   x", "\n", "\n\n\n", "\r\n", "a\r\nb\r\n\r\n",
    "\t\tif x:\n\t\t\treturn\n", " \n \n ", "x \t \n y",
    "Hello, world!", "I'll don't WE'VE it's y'all 'tis 's", "3.14159 1234567 ½ ² Ⅳ ٣٤ १२३ 1,000,000",
    "def f(x: int) -> str:\n    return f'{x:>10}'  # ok\n\n\nclass A(B):\n        pass\n",
    "#include <vector>\nint main() { return a[i]->b && !(c << 2); }", "SELECT * FROM t WHERE a_b = 'x''y';",
    "https://example.org/a?b=c&d=%20#e me@example.org C:\\dir\\file.txt ../../etc",
    "Straße naïve café cafe\u0301 ÀÉÎ ŒÆ ﬁne İı ß", "Привет, мир! Съешь ещё этих мягких французских булок.",
    "Γειά σου Κόσμε", "שלום עולם", "مرحبا بالعالم، كيف حالك؟", "नमस्ते दुनिया", "สวัสดีชาวโลก",
    "你好，世界！我想在apple工作1314151天～", "こんにちは世界。カタカナ", "안녕하세요 세계", "Xin chào thế giới", "გამარჯობა", "Բարեւ", "ሰላም",
    "ខ្មែរ", "မြန်မာ", "தமிழ்", "བོད་", "🙂🚀 😶‍🌫️ 👩‍👩‍👧‍👦 🇫🇷 🏳️‍🌈 👍🏽", "a\u00a0b\u2009c\u3000d\u200be\ufeff",
    "\u0000\u0001\u001f\u007f\u0085\u180e", "e\u0301\u0301\u0301 \u20ac\u2030", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𒀀 🀄",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "supercalifragilisticexpialidocious" * 5, "=" * 200, " " * 300 + "x", "\n" * 150, "ab" * 100,
    "...!?!?,,;;--__**``~~",
    "<|im_start", "|im_end|>", "<| im_end |>", "<0x0A> <s> </s> <unk> [INST]", "▁a▁▁b ▁ c",
]
PIECES = [
    " ", "  ", "    ", "\n", "\r\n", "\t", "the", " The", "ing", "'s", "'RE", "12", "2024", ".", ", ", "!?",
    "==", "->", "__", "é", "ñ", "ш", "Ж", "λ", "א", "ب", "ह", "ก", "中", "文", "か", "한", "🙂", "🏳️‍🌈", "\u00a0",
    "\u3000", "\u0301", "½", "٣", "x", "A", "zz", "/", "\\",
    "<", ">", "\"", "(", ")", "\u200b", "𝔘", "ß", "İ", "word", "tokenization", "\u2028", "\x00", "\x1b",
]


class Tool:
    """One process of tokenize_tool."""

    def __init__(self, process):
        self.process = process

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer.endswith("\n"), self.process.stderr.read()
        return answer.split()

    def encode(self, text, add_special=False, parse_special=False):
        data = text if isinstance(text, bytes) else text.encode()
        return [int(word)
                for word in self.ask("encode", int(add_special), int(parse_special), data.hex() or "-")]

    def decode(self, ids, with_special=False):
        return bytes_of(self.ask("decode", int(with_special), *ids)[0])

    def stream(self, ids, with_special=False):
        return [bytes_of(word) for word in self.ask("stream", int(with_special), *ids)]


def bytes_of(word):
    return b"" if word == "-" else bytes.fromhex(word)


@contextlib.contextmanager
def tool_for(path):
    process = subprocess.Popen([TOOL, path], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    try:
        yield Tool(process)
    finally:
        process.stdin.close()
        assert process.wait(timeout=60) == 0
        process.stdout.close()
        process.stderr.close()


def random_text(rng):
    """Pieces that pre-tokenizers treat differently, and now and then any character of Unicode 3.2."""
    parts = []
    for _ in range(rng.randrange(1, 30)):
        if rng.random() < 0.85:
            parts.append(rng.choice(PIECES))
            continue
        # One library may know a new character as a letter and another as unassigned, so only old ones are
        # used.
        while unicodedata.ucd_3_2_0.category(char := chr(rng.randrange(0x2FFFF))) in ("Cn", "Cs", "Co"):
            pass
        parts.append(char)
    return "".join(parts)


def texts(seed):
    rng = random.Random(seed)
    return TEXTS + [random_text(rng) for _ in range(N_RANDOM)]


def arrays_of(path):
    fields = gguf.GGUFReader(path).fields
    read = lambda key: fields[f"tokenizer.ggml.{key}"].contents() if f"tokenizer.ggml.{key}" in fields else []
    return read("tokens"), read("merges"), read("token_type")


def merge_pairs(merges):
    return [tuple(merge.split(" ", 1)) for merge in merges]


def byte_level(tokens, merges, stages, ignore_merges=False):
    model = models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merge_pairs(merges),
                       ignore_merges=ignore_merges)
    oracle = tokenizers.Tokenizer(model)
    oracle.pre_tokenizer = pre_tokenizers.Sequence(stages)
    oracle.decoder = decoders.ByteLevel()
    return oracle


def differences(tool, oracle_encode, seed):
    wrong = []
    for text in texts(seed):
        expected, found = oracle_encode(text), tool.encode(text)
        if found != expected:
            wrong.append((text, expected, found))
    return wrong


@functools.cache
def smollm2():
    if not SMOLLM2.exists():
        pytest.skip(f"{SMOLLM2} is absent")
    return arrays_of(SMOLLM2)


SMOLLM2_STAGES = [pre_tokenizers.Digits(individual_digits=True),
                  pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]


def test_smollm2_plain_text_against_tokenizers():
    tokens, merges, _ = smollm2()
    oracle = byte_level(tokens, merges, SMOLLM2_STAGES)
    with tool_for(SMOLLM2) as tool:
        assert differences(tool, lambda text: oracle.encode(text).ids, 1) == []


def test_smollm2_special_tokens_against_tokenizers():
    tokens, merges, types = smollm2()
    oracle = byte_level(tokens, merges, SMOLLM2_STAGES)
    special = [token for token, kind in zip(tokens, types) if kind == 3]
    oracle.add_special_tokens(special)
    rng = random.Random(2)
    with tool_for(SMOLLM2) as tool:
        for _ in range(300):
            text = "".join(rng.choice([random_text(rng), rng.choice(special), rng.choice(special)[:-1]])
                           for _ in range(5))
            found = tool.encode(text, parse_special=True)
            assert found == oracle.encode(text).ids, text
            assert not any(types[i] == 3 for i in tool.encode(text)), text


def test_smollm2_round_trip_and_stream():
    tokens, _, types = smollm2()
    missing = {byte for byte, char in pre_tokenizers_alphabet().items() if char not in tokens}
    rng = random.Random(3)
    with tool_for(SMOLLM2) as tool:
        for text in texts(4):
            kept = bytes(byte for byte in text.encode() if byte not in missing)
            assert tool.decode(tool.encode(text)) == kept.decode(errors="replace").encode()
        plain = [i for i, kind in enumerate(types) if kind == 1]
        alphabet = {char: byte for byte, char in pre_tokenizers_alphabet().items()}
        for _ in range(400):
            ids = rng.choices(plain, k=rng.randrange(1, 20))
            whole = bytes(alphabet[char] for i in ids for char in tokens[i])
            parts = tool.stream(ids)
            assert b"".join(parts).decode() == whole.decode(errors="replace")
            for part in parts:
                part.decode()  # each part contains whole characters only


def pre_tokenizers_alphabet():
    """Byte -> the character that represents it in `tokenizers`."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    table = {byte: chr(byte) for byte in visible} | {byte: chr(256 + n) for n, byte in enumerate(hidden)}
    assert sorted(table.values()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    return table


SPLIT = lambda pattern: pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
# As defined in the models' tokenizer.json files.
PRE_TOKENIZERS = {
    "gpt-2": [GPT2],
    "smollm": SMOLLM2_STAGES,
    "falcon": [pre_tokenizers.Punctuation("contiguous"), GPT2, SPLIT("[0-9][0-9][0-9]")],
    "llama-bpe": [SPLIT(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
                        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "qwen2": [SPLIT(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                    r"\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "tekken": [SPLIT(r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
                     r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
                     r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "gpt-4o": [SPLIT(r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
                     r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
                     r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
                     r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "deepseek-v3": [
        SPLIT(r"\p{N}{1,3}"), SPLIT("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
        SPLIT(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
              r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "deepseek-coder": [SPLIT(r"[\r\n]"), SPLIT(r"\s?\p{L}+"), SPLIT(r"\s?\p{P}+"),
                       SPLIT("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
                       pre_tokenizers.Digits(individual_digits=True), BYTES],
    "seed-coder": [SPLIT(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}|"
                         r" ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "bailingmoe": [SPLIT(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|"
                         r"\s*[\r\n]|\s+(?!\S)|\s+"), BYTES],
    "qwen35": [SPLIT(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
                     r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "laguna": [SPLIT(r"[^\n]+|[\n]+"), SPLIT(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
                                             r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "minicpm5": [SPLIT(r"\p{N}{1,3}"), SPLIT(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|"
                                             r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "jais-2": [SPLIT(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
                     r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|"
                     r"\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"),
               BYTES],
    "exaone-moe": [SPLIT(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|"
                         r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"), BYTES],
    "youtu": [SPLIT("[\uac00-\ud7a3\u3131-\u318e]+|"
                    "[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f"
                    "\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
              SPLIT(r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
                    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
                    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}|"
                    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "kimi-k2": [SPLIT(r"[\p{Han}]+|"
                      r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
                      r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                      r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
                      r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                      r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "spark2_5": [SPLIT(r"\p{N}{1,3}"), SPLIT("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                 SPLIT(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|"
                       r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"),
                 SPLIT(r"\p{N}"), BYTES],
    "afmoe": [
        SPLIT(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"),
        SPLIT("[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf"
              "\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af"
              "\u1100-\u11ff]+"),
        SPLIT(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
              r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "chameleon": [SPLIT("<sentinel:[0-9]+>"), SPLIT("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
                  SPLIT(r"([\t\n]|    |  )"), pre_tokenizers.Digits(individual_digits=True),
                  SPLIT(r"[\p{P}!-/:-@\[-`{-~]"), GPT2],
    "bloom": [SPLIT(" ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"), BYTES],
}
PRE_TOKENIZERS["tiny_aya"] = [SPLIT(r"\d{1,3}(?=(?:\d{3})*\b)"), *PRE_TOKENIZERS["gpt-4o"]]
IGNORE_MERGES = ("llama-bpe", "tekken", "minicpm5", "youtu")


@pytest.fixture(scope="module")
def trained():
    """A byte-level vocabulary trained here on words that cross every border known to the pre-tokenizers."""
    oracle = tokenizers.Tokenizer(models.BPE())
    oracle.pre_tokenizer = pre_tokenizers.Sequence([SPLIT(".{1,12}"), BYTES])
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=1500,
                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                             show_progress=False)
    rng = random.Random(5)
    oracle.train_from_iterator(TEXTS * 3 + [random_text(rng) for _ in range(500)], trainer)
    vocabulary = sorted(oracle.get_vocab().items(), key=lambda item: item[1])
    merges = json.loads(oracle.to_str())["model"]["merges"]
    return [token for token, _ in vocabulary], [" ".join(merge) for merge in merges]


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_pre_tokenizer_against_tokenizers(name, trained, tmp_path):
    tokens, merges = trained
    oracle = byte_level(tokens, merges, PRE_TOKENIZERS[name], name in IGNORE_MERGES)
    path = write_gguf(tmp_path / "v.gguf", "gpt2", tokens, [1] * len(tokens), merges=merges, pre=name)
    with tool_for(path) as tool:
        assert differences(tool, lambda text: oracle.encode(text).ids, 6) == []


def write_gguf(path, model, tokens, types, scores=None, merges=None, pre=None, **keys):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if scores is not None:
        writer.add_token_scores(scores)
    if merges is not None:
        writer.add_token_merges(merges)
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    for key, value in keys.items():
        add = {bool: writer.add_bool, int: writer.add_uint32, bytes: writer.add_array}[type(value)]
        add(f"tokenizer.ggml.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def sentencepiece_gguf(path, model, kind="llama", **keys):
    kinds = [(model.is_unknown, 2), (model.is_control, 3), (model.is_unused, 5), (model.is_byte, 6)]
    ids = range(model.get_piece_size())
    types = [next((number for test, number in kinds if test(i)), 1) for i in ids]
    return write_gguf(path, kind, [model.id_to_piece(i) for i in ids], types,
                      [model.get_score(i) for i in ids], **keys)


def train_sentencepiece(folder, **options):
    rng = random.Random(8)
    words = ("the a of and to in river boat night walked quickly bright 1984 café über "
             "naïve Москва 東京 don't").split()
    lines = [" ".join(rng.choices(words, k=12)) for _ in range(800)] + [
        text for text in TEXTS if "\0" not in text]
    (folder / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    defaults = dict(model_type="bpe", vocab_size=700, byte_fallback=True, normalization_rule_name="identity",
                    remove_extra_whitespaces=False)
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text.txt"), model_prefix=str(folder / "m"),
        character_coverage=0.98, hard_vocab_limit=False,
        minloglevel=2, num_threads=1, **(defaults | options))
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "m.model"))


def sentencepiece_texts(seed):
    # sentencepiece reads U+2581 as a space, and some of its functions end strings at NUL.
    return [text.replace("\u2581", "_").replace("\0", "") for text in texts(seed)]


@pytest.mark.parametrize("options",
                         [{}, {"split_by_whitespace": False}, {"allow_whitespace_only_pieces": True}],
                         ids=["words", "phrases", "whitespace_pieces"])
def test_sentencepiece_model_trained_here(options, tmp_path):
    model = train_sentencepiece(tmp_path, **options)
    with tool_for(sentencepiece_gguf(tmp_path / "v.gguf", model)) as tool:
        for text in sentencepiece_texts(9):
            ids = tool.encode(text)
            assert ids == model.encode(text), text
            assert tool.decode(ids).decode() == text == model.decode(ids)
        assert tool.encode("the boat", add_special=True) == [model.bos_id(), *model.encode("the boat")]


def test_sentencepiece_model_without_a_space_prefix(tmp_path):
    """Configured like Gemma's."""
    model = train_sentencepiece(tmp_path, add_dummy_prefix=False)
    with tool_for(sentencepiece_gguf(tmp_path / "v.gguf", model, add_space_prefix=False)) as tool:
        for text in sentencepiece_texts(13):
            ids = tool.encode(text)
            assert ids == model.encode(text), text
            assert tool.decode(ids).decode() == text


def test_sentencepiece_random_ids_decode_alike(tmp_path):
    model = train_sentencepiece(tmp_path)
    rng = random.Random(10)
    plain = [i for i in range(model.get_piece_size()) if not model.is_control(i) and not model.is_unknown(i)]
    with tool_for(sentencepiece_gguf(tmp_path / "v.gguf", model)) as tool:
        for _ in range(400):
            ids = rng.choices(plain, k=rng.randrange(1, 20))
            pieces = [model.id_to_piece(i) for i in ids]
            data = b"".join(bytes([int(p[3:5], 16)]) if model.is_byte(i)
                            else p.replace("\u2581", " ").encode()
                            for i, p in zip(ids, pieces))
            data = data[1:] if data[:1] == b" " else data
            assert tool.decode(ids).decode() == data.decode(errors="replace")
            assert b"".join(tool.stream(ids)) == tool.decode(ids)


def test_sentencepiece_model_of_the_relu_model():
    folder = ROOT / "tests/data/relu"
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tok.model"))
    with tool_for(folder / "relu-5m-q8_0.gguf") as tool:
        for text in sentencepiece_texts(11):
            assert tool.encode(text) == model.encode(text), text


def test_any_bytes_encode_and_decode_as_python_decodes_them(tmp_path, trained):
    tokens, merges = trained
    path = write_gguf(tmp_path / "v.gguf", "gpt2", tokens, [1] * len(tokens), merges=merges, pre="qwen2")
    rng = random.Random(12)
    with tool_for(path) as tool:
        for _ in range(1000):
            text = bytearray(random_text(rng).encode())
            for _ in range(rng.randrange(4)):
                text[rng.randrange(len(text))] = rng.randrange(256)
            assert tool.decode(tool.encode(bytes(text))).decode() == bytes(text).decode(errors="replace")


def protobuf_field(data, number):
    """The bytes of a length-delimited field of a protobuf message, b"" if it has none."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        field, wire = divmod(varint(), 8)
        size = {0: 0, 1: 8, 5: 4}.get(wire)
        if wire == 0:
            varint()
        elif wire == 2:
            size = varint()
            if field == number:
                return data[at:at + size]
        at += size
    return b""


def character_map(folder):
    normalizer_spec = protobuf_field((folder / "m.model").read_bytes(), 3)
    return protobuf_field(normalizer_spec, 2)


@pytest.mark.parametrize("options", [
    {"normalization_rule_name": "nmt_nfkc", "remove_extra_whitespaces": True},
    {"normalization_rule_name": "nmt_nfkc_cf", "remove_extra_whitespaces": True, "add_dummy_prefix": False},
    {"normalization_rule_name": "nfkc"},
    {"byte_fallback": True},
    {"split_by_whitespace": False, "add_dummy_prefix": False},
], ids=["xlm-roberta", "lower_case", "all_spaces", "bytes", "phrases"])
def test_unigram_model_trained_here(options, tmp_path):
    options = {"byte_fallback": False} | options
    model = train_sentencepiece(tmp_path, model_type="unigram", vocab_size=900, **options)
    keys = {"add_space_prefix": options.get("add_dummy_prefix", True), "add_eos_token": False,
            "remove_extra_whitespaces": options.get("remove_extra_whitespaces", False),
            "unknown_token_id": model.unk_id()}
    if data := character_map(tmp_path):
        keys["precompiled_charsmap"] = data
    with tool_for(sentencepiece_gguf(tmp_path / "v.gguf", model, "t5", **keys)) as tool:
        for text in texts(14):
            text = text.replace("\0", "")
            expected, found = model.encode(text), tool.encode(text)
            if found == expected:
                continue
            # sentencepiece adds in single precision, so rounding decides between equally good splits of
            # "abababab".
            assert set(text) <= set("ab"), text
            assert abs(sum(map(model.get_score, expected)) - sum(map(model.get_score, found))) < 1e-3


def test_unigram_against_tokenizers(tmp_path):
    model = train_sentencepiece(tmp_path, model_type="unigram", vocab_size=900, byte_fallback=False)
    pieces = [(model.id_to_piece(i), model.get_score(i)) for i in range(model.get_piece_size())]
    oracle = tokenizers.Tokenizer(models.Unigram(pieces, model.unk_id(), False))
    oracle.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    keys = {"add_space_prefix": True, "add_eos_token": False, "unknown_token_id": model.unk_id()}
    with tool_for(sentencepiece_gguf(tmp_path / "v.gguf", model, "t5", **keys)) as tool:
        for text in sentencepiece_texts(15):
            # tokenizers omits the prefix if the text has one, and finds "<s>" in plain text.
            if not text.startswith((" ", "_")) and "<" not in text:
                assert tool.encode(text) == oracle.encode(text).ids, text


def train_wordpiece(normalizer):
    oracle = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    oracle.normalizer = normalizer
    oracle.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=900, limit_alphabet=180, special_tokens=special,
                                        show_progress=False)
    rng = random.Random(16)
    oracle.train_from_iterator(wordpiece_texts(TEXTS * 3 + [random_text(rng) for _ in range(500)]), trainer)
    ids = {token: oracle.token_to_id(token) for token in special}
    oracle.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return oracle


def wordpiece_texts(lines):
    # A GGUF file writes the word "a" and the end of a word, "\u2581a", in the same way.
    return [text.replace("\u2581", "_") for text in lines]


def wordpiece_gguf(path, oracle, **keys):
    """Written like converters write it: U+2581 before what begins a word, nothing before what continues
    one."""
    vocabulary = sorted(oracle.get_vocab().items(), key=lambda item: item[1])
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    spell = (lambda token: token if token in special else token[2:] if token.startswith("##")
                           else "\u2581" + token)
    types = [3 if token in special else 1 for token, _ in vocabulary]
    ids = {f"{key}_token_id": oracle.token_to_id(token)
           for key, token in (("cls", "[CLS]"), ("seperator", "[SEP]"), ("unknown", "[UNK]"))}
    return write_gguf(path, "bert", [spell(token) for token, _ in vocabulary], types, **ids, **keys)


@pytest.mark.parametrize("lower", [True, False], ids=["uncased", "cased"])
def test_wordpiece_model_trained_here(lower, tmp_path):
    oracle = train_wordpiece(normalizers.BertNormalizer(lowercase=lower))
    keys = {} if lower else {"normalizer.lowercase": False}
    long = ["a" * 99, "a" * 100, "a" * 101, "é" * 100, "é" * 101, "\u0958" * 50, "\u0958" * 51, "한" * 40]
    with tool_for(wordpiece_gguf(tmp_path / "v.gguf", oracle, **keys)) as tool:
        wrong = []
        for text in wordpiece_texts(texts(17)) + long:
            expected = oracle.encode(text)
            found = tool.encode(text, add_special=True)
            if found != expected.ids:
                wrong.append((text, expected.ids, found))
        assert wrong == []
        assert tool.encode("[CLS] the", parse_special=True)[0] == oracle.token_to_id("[CLS]")
        words = " ".join(["the", "hello", "world"])
        assert tool.decode(tool.encode(words)).decode() == words


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("strip", [True, False])
def test_wordpiece_normalization_of_every_old_character(lower, strip, tmp_path):
    """A vocabulary of all single characters shows what the normalizer turns each into."""
    normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip)
    old = [chr(c) for c in range(1, 0x30000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs")
           and not 0x3400 < c < 0x9FFF and not 0x20010 < c < 0x2F800 and c != 0x2581]
    # The tables of `tokenizers` are older than ours.
    old = [char for char in old if unicodedata.category(char) == unicodedata.ucd_3_2_0.category(char)]
    pieces = sorted({char for text in old
                     for char in normalizer.normalize_str(text) + text if not char.isspace()})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces, *("##" + char for char in pieces)]
    oracle = tokenizers.Tokenizer(models.WordPiece({token: i for i, token in enumerate(tokens)},
                                                   unk_token="[UNK]"))
    oracle.normalizer = normalizer
    oracle.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    keys = {"normalizer.lowercase": lower, "normalizer.strip_accents": strip}
    with tool_for(wordpiece_gguf(tmp_path / "v.gguf", oracle, **keys)) as tool:
        for begin in range(0, len(old), 20):
            for text in ("b".join(old[begin:begin + 20]), " ".join(old[begin:begin + 20])):
                assert tool.encode(text) == oracle.encode(text).ids, ascii(text)


@pytest.mark.parametrize("with_bytes", [True, False])
def test_character_bpe_trained_here(with_bytes, tmp_path):
    """Configured like Gemma 4's: merges over characters, U+2581 for spaces, bytes for characters without a
    token."""
    oracle = tokenizers.Tokenizer(models.BPE())
    oracle.pre_tokenizer = SPLIT("[^\n]{1,12}")
    special = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256) if with_bytes)]
    trainer = trainers.BpeTrainer(vocab_size=1400, limit_alphabet=150, special_tokens=special,
                                  show_progress=False)
    rng = random.Random(18)
    lines = TEXTS * 3 + [random_text(rng) for _ in range(500)]
    oracle.train_from_iterator([line.replace(" ", "\u2581") for line in lines], trainer)
    vocabulary = oracle.get_vocab()
    merges = json.loads(oracle.to_str())["model"]["merges"]
    oracle = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[tuple(merge) for merge in merges],
                                             unk_token="<unk>", fuse_unk=True, byte_fallback=with_bytes))
    oracle.normalizer = normalizers.Replace(" ", "\u2581")
    tokens = sorted(vocabulary, key=vocabulary.get)
    types = [2 if token == "<unk>" else 1 if token not in special else 6 if token.startswith("<0x") else 3
             for token in tokens]
    path = write_gguf(tmp_path / "v.gguf", "gemma4", tokens, types,
                      merges=[" ".join(merge) for merge in merges],
                      bos_token_id=2, eos_token_id=1, unknown_token_id=3, add_bos_token=False)
    with tool_for(path) as tool:
        for text in texts(19):
            ids = tool.encode(text)
            assert ids == oracle.encode(text).ids, text
            if with_bytes:
                assert tool.decode(ids).decode() == text.replace("\u2581", " ")
        # The begin token is put before texts whatever the flag says.
        assert tool.encode("a", add_special=True)[0] == 2
