"""Tokenizers against the libraries that define them: PyPI's `tokenizers` for byte-level BPE, built here from the model
file's own tokens and merges, and `sentencepiece`, on a model trained here from text written here.

The C++ side is tests/tokenize_tool, found through HEARTH_BUILD_DIR; one process answers all questions on a model. The
default model comes from HEARTH_TEST_MODEL or the cache that server/run.sh fills.
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
from tokenizers import decoders, models, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HEARTH_BUILD_DIR", ROOT / "build/release"))
TOOL = BUILD / "tests/tokenize_tool"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "hearth"
SMOLLM2 = pathlib.Path(os.environ.get("HEARTH_TEST_MODEL") or CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf")
N_RANDOM = 1500

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not built")

TEXTS = [
    "", " ", "  ", "   x", "\n", "\n\n\n", "\r\n", "a\r\nb\r\n\r\n", "\t\tif x:\n\t\t\treturn\n", " \n \n ", "x \t \n y",
    "Hello, world!", "I'll don't WE'VE it's y'all 'tis 's", "3.14159 1234567 ½ ² Ⅳ ٣٤ १२३ 1,000,000",
    "def f(x: int) -> str:\n    return f'{x:>10}'  # ok\n\n\nclass A(B):\n        pass\n",
    "#include <vector>\nint main() { return a[i]->b && !(c << 2); }", "SELECT * FROM t WHERE a_b = 'x''y';",
    "https://example.org/a?b=c&d=%20#e me@example.org C:\\dir\\file.txt ../../etc",
    "Straße naïve café cafe\u0301 ÀÉÎ ŒÆ ﬁne İı ß", "Привет, мир! Съешь ещё этих мягких французских булок.",
    "Γειά σου Κόσμε", "שלום עולם", "مرحبا بالعالم، كيف حالك؟", "नमस्ते दुनिया", "สวัสดีชาวโลก", "你好，世界！我想在apple工作1314151天～",
    "こんにちは世界。カタカナ", "안녕하세요 세계", "Xin chào thế giới", "გამარჯობა", "Բարեւ", "ሰላም", "ខ្មែរ", "မြန်မာ", "தமிழ்", "བོད་",
    "🙂🚀 😶‍🌫️ 👩‍👩‍👧‍👦 🇫🇷 🏳️‍🌈 👍🏽", "a\u00a0b\u2009c\u3000d\u200be\ufeff", "\u0000\u0001\u001f\u007f\u0085\u180e", "e\u0301\u0301\u0301 \u20ac\u2030",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𒀀 🀄", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "supercalifragilisticexpialidocious" * 5, "=" * 200, " " * 300 + "x", "\n" * 150, "ab" * 100, "...!?!?,,;;--__**``~~",
    "<|im_start", "|im_end|>", "<| im_end |>", "<0x0A> <s> </s> <unk> [INST]", "▁a▁▁b ▁ c",
]
PIECES = [
    " ", "  ", "    ", "\n", "\r\n", "\t", "the", " The", "ing", "'s", "'RE", "12", "2024", ".", ", ", "!?", "==", "->", "__", "é", "ñ",
    "ш", "Ж", "λ", "א", "ب", "ह", "ก", "中", "文", "か", "한", "🙂", "🏳️‍🌈", "\u00a0", "\u3000", "\u0301", "½", "٣", "x", "A", "zz", "/", "\\",
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
        return [int(word) for word in self.ask("encode", int(add_special), int(parse_special), data.hex() or "-")]

    def decode(self, ids, with_special=False):
        return bytes_of(self.ask("decode", int(with_special), *ids)[0])

    def stream(self, ids, with_special=False):
        return [bytes_of(word) for word in self.ask("stream", int(with_special), *ids)]


def bytes_of(word):
    return b"" if word == "-" else bytes.fromhex(word)


@contextlib.contextmanager
def tool_for(path):
    process = subprocess.Popen([TOOL, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    try:
        yield Tool(process)
    finally:
        process.stdin.close()
        assert process.wait(timeout=60) == 0
        process.stdout.close()
        process.stderr.close()


def random_text(rng):
    """Pieces that pre-tokenizers treat apart, and now and then any character that Unicode 3.2 has."""
    parts = []
    for _ in range(rng.randrange(1, 30)):
        if rng.random() < 0.85:
            parts.append(rng.choice(PIECES))
            continue
        # A new character may be a letter to one library and unassigned to another; these are old.
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
            text = "".join(rng.choice([random_text(rng), rng.choice(special), rng.choice(special)[:-1]]) for _ in range(5))
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
                part.decode()  # each shows whole characters only


def pre_tokenizers_alphabet():
    """Byte -> the character that spells it, as `tokenizers` has it."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    table = {byte: chr(byte) for byte in visible} | {byte: chr(256 + n) for n, byte in enumerate(hidden)}
    assert sorted(table.values()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    return table


SPLIT = lambda pattern: pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
# As the models' tokenizer.json files define them.
PRE_TOKENIZERS = {
    "gpt-2": [GPT2],
    "smollm": SMOLLM2_STAGES,
    "falcon": [pre_tokenizers.Punctuation("contiguous"), GPT2, SPLIT("[0-9][0-9][0-9]")],
    "llama-bpe": [SPLIT(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                        r"\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "qwen2": [SPLIT(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                    r"\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "tekken": [SPLIT(r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
                     r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
                     r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "gpt-4o": [SPLIT(r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
                     r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
                     r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
                     r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "deepseek-v3": [SPLIT(r"\p{N}{1,3}"), SPLIT("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                    SPLIT(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
                          r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "deepseek-coder": [SPLIT(r"[\r\n]"), SPLIT(r"\s?\p{L}+"), SPLIT(r"\s?\p{P}+"),
                       SPLIT("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), pre_tokenizers.Digits(individual_digits=True),
                       BYTES],
    "seed-coder": [SPLIT(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|"
                         r"\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES],
    "bailingmoe": [SPLIT(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|"
                         r"\s*[\r\n]|\s+(?!\S)|\s+"), BYTES],
    "bloom": [SPLIT(" ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"), BYTES],
}


@pytest.fixture(scope="module")
def trained():
    """A byte-level vocabulary trained here on words that run over every border the pre-tokenizers know."""
    oracle = tokenizers.Tokenizer(models.BPE())
    oracle.pre_tokenizer = pre_tokenizers.Sequence([SPLIT(".{1,12}"), BYTES])
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                             show_progress=False)
    rng = random.Random(5)
    oracle.train_from_iterator(TEXTS * 3 + [random_text(rng) for _ in range(500)], trainer)
    vocabulary = sorted(oracle.get_vocab().items(), key=lambda item: item[1])
    merges = json.loads(oracle.to_str())["model"]["merges"]
    return [token for token, _ in vocabulary], [" ".join(merge) for merge in merges]


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_pre_tokenizer_against_tokenizers(name, trained, tmp_path):
    tokens, merges = trained
    ignore_merges = name in ("llama-bpe", "tekken")
    oracle = byte_level(tokens, merges, PRE_TOKENIZERS[name], ignore_merges)
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
        writer.add_bool(f"tokenizer.ggml.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def sentencepiece_gguf(path, model):
    kinds = [(model.is_unknown, 2), (model.is_control, 3), (model.is_unused, 5), (model.is_byte, 6)]
    ids = range(model.get_piece_size())
    types = [next((number for test, number in kinds if test(i)), 1) for i in ids]
    return write_gguf(path, "llama", [model.id_to_piece(i) for i in ids], types, [model.get_score(i) for i in ids])


def train_sentencepiece(folder, **options):
    rng = random.Random(8)
    words = "the a of and to in river boat night walked quickly bright 1984 café über naïve Москва 東京 don't".split()
    lines = [" ".join(rng.choices(words, k=12)) for _ in range(800)] + [text for text in TEXTS if "\0" not in text]
    (folder / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text.txt"), model_prefix=str(folder / "m"), model_type="bpe", vocab_size=700,
        character_coverage=0.98, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "m.model"))


def sentencepiece_texts(seed):
    # sentencepiece takes U+2581 for a space, and ends C strings at NUL on some ways in.
    return [text.replace("\u2581", "_").replace("\0", "") for text in texts(seed)]


@pytest.mark.parametrize("options", [{}, {"split_by_whitespace": False}, {"allow_whitespace_only_pieces": True}],
                         ids=["words", "phrases", "whitespace_pieces"])
def test_sentencepiece_model_trained_here(options, tmp_path):
    model = train_sentencepiece(tmp_path, **options)
    with tool_for(sentencepiece_gguf(tmp_path / "v.gguf", model)) as tool:
        for text in sentencepiece_texts(9):
            ids = tool.encode(text)
            assert ids == model.encode(text), text
            assert tool.decode(ids).decode() == text == model.decode(ids)
        assert tool.encode("the boat", add_special=True) == [model.bos_id(), *model.encode("the boat")]


def test_sentencepiece_random_ids_decode_alike(tmp_path):
    model = train_sentencepiece(tmp_path)
    rng = random.Random(10)
    plain = [i for i in range(model.get_piece_size()) if not model.is_control(i) and not model.is_unknown(i)]
    with tool_for(sentencepiece_gguf(tmp_path / "v.gguf", model)) as tool:
        for _ in range(400):
            ids = rng.choices(plain, k=rng.randrange(1, 20))
            pieces = [model.id_to_piece(i) for i in ids]
            data = b"".join(bytes([int(p[3:5], 16)]) if model.is_byte(i) else p.replace("\u2581", " ").encode()
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
