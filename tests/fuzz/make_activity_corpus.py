"""Writes the seeds of fuzz_torch_tensor, fuzz_gpu_index, fuzz_activity and fuzz_expert_trace into
tests/fuzz/corpus: tensors as PyTorch saves them and variants of these, PowerInfer's GPU indexes, and activity
files and traces of experts without their checksums.

Needs only Python. The files are committed; run this again after adding a seed.
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def word(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value):
    if 0 <= value < 256:
        return b"K" + struct.pack("<B", value)
    return b"M" + struct.pack("<H", value)


def pickle(storage="IntStorage", count=3, offset=0, shape=(3,), strides=(1,),
           end=b"ccollections\nOrderedDict\nq\x08)Rq\x09"):
    dims = b"".join(map(number, shape)), b"".join(map(number, strides))
    return (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00((" + word("storage") + b"q\x01ctorch\n"
            + storage.encode() + b"\nq\x02" + word("0") + b"q\x03" + word("cpu") + b"q\x04" + number(count)
            + b"tq\x05Q" + number(offset)
            + b"(" + dims[0] + b"tq\x06(" + dims[1] + b"tq\x07\x89" + end + b"tq\x0aRq\x0b.")


def archive(entries, method=0):
    out, directory = b"", b""
    for name, data in entries.items():
        name = name.encode()
        sizes = struct.pack("<II", len(data), len(data))
        directory += b"PK\1\2" + struct.pack("<HHHHII", 0, 0, 8, method, 0, 0) + sizes + struct.pack(
            "<HHHHHII", len(name), 0, 0, 0, 0, 0, len(out)) + name
        out += (b"PK\3\4" + struct.pack("<HHHII", 0, 8, method, 0, 0) + bytes(8)
                + struct.pack("<HH", len(name), 3) + name + b"pad")
        out += data + b"PK\7\10" + bytes(4) + sizes
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(directory), len(out), 0)
    return out + directory + end


def tensor(data=bytes(12), byteorder=b"little", **description):
    return archive({"a/data.pkl": pickle(**description), "a/byteorder": byteorder, "a/data/0": data})


TENSORS = {
    "int32": tensor(struct.pack("<3i", 1, 0, 700)),
    "int64": tensor(bytes(24), storage="LongStorage"),
    "float16": tensor(bytes(6), storage="HalfStorage"),
    "bfloat16": tensor(bytes(6), storage="BFloat16Storage"),
    "float32": tensor(struct.pack("<3f", 1, float("nan"), float("inf")), storage="FloatStorage"),
    "float64": tensor(bytes(24), storage="DoubleStorage"),
    "bool": tensor(bytes(3), storage="BoolStorage"),
    "view": tensor(bytes(32), count=8, offset=1, strides=(2,)),
    "repeated": tensor(shape=(1000,), strides=(0,)),
    "beyond": tensor(shape=(300,)),
    "matrix": tensor(shape=(1, 3), strides=(3, 1)),
    "no_hooks": tensor(end=b"N"),
    "empty": tensor(b"", count=0, shape=(0,)),
    "big_endian": tensor(byteorder=b"big"),
    "compressed": archive({"a/data.pkl": pickle()}, method=8),
    "no_pickle": archive({"a": b""}),
    "no_data": archive({"a/data.pkl": pickle()}),
    "no_entries": archive({}),
    "pickle": pickle(),
    "longs": b"\x80\x02\x8a\x08\1\2\3\4\5\6\7\x88r\0\0\0\1j\0\0\0\1\x8a\0J\xff\xff\xff\xff\x88\x87Q.",
    "memo": b"\x80\x02)q\1h\1\x86q\1h\1\x86q\2h\2\x86.",
    "state_dict": b"\x80\x02}q\0" + word("fc1.weight") + b"N" + b"s.",
    "old_format": b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.",
}


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def index(layers, architecture="generic.gpu_index", magic=b"PWRI", keys=()):
    keys = [text("general.architecture") + struct.pack("<I", 8) + text(architecture),
            text("generic.gpu_index.block_count") + struct.pack("<II", 4, len(layers)),
            text("split.vram_capacity") + struct.pack("<IQ", 10, 1 << 30), *keys]
    tensors, data = [], b""
    for i, (mask, bucket) in enumerate(layers):
        for name, values in (("gpu_idx", mask), ("gpu_bucket", bucket)):
            data += bytes(-len(data) % 32)
            tensors.append(text(f"blk.{i}.{name}") + struct.pack("<IQIQ", 1, len(values), 18, len(data)))
            data += struct.pack(f"<{len(values)}i", *values)
    out = magic + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + b"".join(tensors)
    return out + bytes(-len(out) % 32) + data


NONE, SOME, ALL = ([0] * 5, []), ([0, 1, 0, 1, 0], [1, 3]), ([1] * 5, [0, 1, 2, 3, 4])

INDEXES = {
    "usual": index([SOME, SOME]),
    "none_and_all": index([NONE, ALL]),
    "one_layer": index([SOME]),
    "contradicts": index([SOME, (SOME[0], [1, 4])]),
    "wider": index([([0] * 6, []), NONE]),
    "model": index([SOME, SOME], architecture="llama"),
    "plain_gguf": index([SOME, SOME], magic=b"GGUF"),
    "more_keys": index([SOME, SOME], keys=[text("a") + struct.pack("<IIQ", 9, 8, 2) + text("b") + text("")]),
}


def leb128(number):
    out = b""
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def counts(n_tokens=0, n_pairs=0, layers=()):
    """layers: (active, again, value sums) for each layer."""
    numbers = [number for layer in layers for row in layer for number in row]
    return leb128(n_tokens) + leb128(n_pairs) + b"".join(map(leb128, numbers))


def activity(shape=(1, 8, 3), texts=(), sizes=None, sources=(), version=1, name=b"a model", experts=b""):
    """experts: their number, and what version 2 has more."""
    out = b"HACT" + struct.pack("<I3I", version, *shape) + bytes(range(32))
    out += leb128(4) + b"relu" + leb128(len(name)) + name + experts
    out += leb128(len(texts)) + b"".join(texts)
    out += b"\0" if sizes is None else b"\1" + struct.pack(f"<{len(sizes)}f", *sizes)
    return out + b"".join(sources) + counts() * (3 - len(sources))


ONE_LAYER = ((7, 0, 3), (2, 0, 0), (123456, 0, 1))
ACTIVITIES = {
    "empty": activity(),
    "usual": activity(texts=(bytes(32), b"\1" * 32), sizes=(1, 0.5, 2),
                      sources=(counts(9, 8, [ONE_LAYER]), counts(),
                               counts(300, 1, [ONE_LAYER]))),
    "two_layers": activity(shape=(2, 8, 3), sources=(counts(9, 8, [ONE_LAYER, ONE_LAYER]),)),
    "not_a_number": activity(sizes=(1, float("nan"), 2)),
    "unordered_texts": activity(texts=(b"\1" * 32, bytes(32))),
    "more_active_than_tokens": activity(sources=(counts(6, 5, [ONE_LAYER]),)),
    "many_tokens": activity(sources=(counts(2**32 - 1, 2**32 - 1, [ONE_LAYER]),) * 2),
    "wide": activity(shape=(1 << 14, 8, 1 << 24), sources=(counts(9, 8, [ONE_LAYER]),)),
    "no_tokens_of_a_wide_model": activity(shape=(1 << 14, 8, 1 << 24)),
    "newer": activity(version=3),
    "experts": activity(version=2, experts=leb128(3), sources=(
        counts(9, 8, [ONE_LAYER]) + leb128(2) + leb128(5) + leb128(0) + leb128(0),)),
    "more_windows_than_tokens": activity(version=2, experts=leb128(3), sources=(
        counts(9, 8, [ONE_LAYER]) + leb128(3) + leb128(5) + leb128(0) + leb128(0),)),
    "no_experts": activity(version=2, experts=leb128(0)),
    "sizes_of_experts": activity(version=2, experts=leb128(3), sizes=(1, 0.5, 2)),
    "long_number": activity()[:-3] + b"\xff" * 11,
    "long_name": activity(name=b"n" * 1025),
}


def trace(runs=(), n_experts=3, n_used=2, layers=((0, 100),), version=1, n_runs=None):
    """runs: (kind, number of tokens, bytes of the experts) for each run."""
    out = b"HTRC" + struct.pack("<I3I", version, 2, 8, 4) + bytes(range(32))
    out += leb128(4) + b"silu" + leb128(7) + b"a model" + leb128(n_experts)
    out += leb128(n_used) + leb128(len(layers))
    out += b"".join(leb128(number) + leb128(size) for number, size in layers)
    out += leb128(len(runs) if n_runs is None else n_runs)
    return out + b"".join(leb128(kind) + leb128(n_tokens) + experts for kind, n_tokens, experts in runs)


USUAL = ((2, 2, b"\0\1\2\0"), (1, 1, b"\1\0"), (2, 1, b"\2\1"))
TRACES = {
    "empty": trace(),
    "usual": trace(USUAL),
    "two_layers": trace(((2, 1, b"\0\1\2\0"),), layers=((0, 100), (1, 120))),
    "wide": trace(((3, 1, struct.pack("<2H", 299, 5)),), n_experts=300),
    "no_such_expert": trace(((2, 1, b"\0\3"),)),
    "twice": trace(((2, 1, b"\1\1"),)),
    "no_tokens": trace(((2, 0, b""),)),
    "begins_in_the_middle": trace(USUAL[1:]),
    "no_such_kind": trace(((4, 1, b"\0\1"),)),
    "no_layers": trace(layers=()),
    "unordered_layers": trace(layers=((1, 100), (0, 100))),
    "many_runs": trace(n_runs=1 << 40),
    "more_used_than_there_are": trace(n_used=4),
    "no_experts": trace(n_experts=0),
    "cut_short": trace(USUAL)[:-1],
    "newer": trace(version=2),
}


def main():
    for folder, seeds in (("torch_tensor", TENSORS), ("gpu_index", INDEXES), ("activity", ACTIVITIES),
                          ("expert_trace", TRACES)):
        (CORPUS / folder).mkdir(parents=True, exist_ok=True)
        for name, data in seeds.items():
            (CORPUS / folder / name).write_bytes(data)
        print(f"{len(seeds)} seeds in {CORPUS / folder}")


main()
