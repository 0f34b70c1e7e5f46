"""One model in many types of weights: synth's 1B shape in F16, which llama-quantize converts to the others.

All its matrices have the type, including the embedding and the output, so that a speed is that type's. The
files are made once; `models.json` beside them holds their sizes. Used by compare.py.
"""
import json
import pathlib
import shutil
import subprocess

# Bits per weight with its share of the block's scales, by llama-quantize's name for the type.
BITS = {"F16": 16, "BF16": 16, "Q8_0": 8.5, "Q6_K": 6.5625, "Q5_K": 5.5, "Q4_K": 4.5, "Q5_0": 5.5, "Q4_1": 5,
        "Q4_0": 4.5, "IQ4_XS": 4.25, "IQ4_NL": 4.5}
# The allowed error of a file's size, relative to the F16 file. The vocabulary and the norms are not
# quantized; they are 0.5 % of the shape tiny and less of the others. If --pure were missing, the output
# matrix would be Q6_K instead of Q4_0, which is 0.7 % of the shape 1b.
SIZE_TOLERANCE = 0.005
SIZES = "models.json"


class ModelError(Exception):
    """The message is a sentence."""


def file_of(folder, shape, type_):
    return pathlib.Path(folder) / f"{shape}-{type_.lower()}.gguf"


def expected_bytes(f16_bytes, type_):
    return int(f16_bytes * BITS[type_] / 16)


def check_size(path, f16_bytes, type_):
    """Throws ModelError unless the file's size fits the type."""
    found, expected = path.stat().st_size, expected_bytes(f16_bytes, type_)
    if abs(found - expected) > SIZE_TOLERANCE * f16_bytes:
        raise ModelError(f"{path.name}: has {found:,} bytes, and all of it in {type_} would be about "
                         f"{expected:,}; the program that made it must know --pure")


def read_sizes(folder):
    """The shape, and the sizes of models.json by type. Throws ModelError."""
    path = pathlib.Path(folder) / SIZES
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return found["shape"], dict(found["bytes"])
    except FileNotFoundError:
        raise ModelError(
            f"{path}: is not there; make the models with compare.py models --to {folder}") from None
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: is damaged ({error!r}); remove it and make the models again") from error


def present(folder, shape, sizes, type_):
    """Whether the model exists and is complete."""
    path = file_of(folder, shape, type_)
    return type_ in sizes and path.is_file() and path.stat().st_size == sizes[type_]


def _call(arguments, say):
    say(" ".join(map(str, arguments)))
    done = subprocess.run(list(map(str, arguments)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        last = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
        raise ModelError(f"{arguments[0]} ended with code {done.returncode}: {last}")


def _write_sizes(folder, shape, sizes):
    (folder / SIZES).write_text(json.dumps({"shape": shape, "bytes": sizes}, indent=1) + "\n",
                                encoding="utf-8")


def _make(call_of, path, say, check=lambda part: None):
    """Calls a program that writes a file, and renames the file once it is complete and checked."""
    part = path.with_name("unfinished-" + path.name)
    part.unlink(missing_ok=True)
    try:
        _call(call_of(part), say)
        check(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def make_models(folder, shape, types, hearth, quantize, n_threads, say):
    """Makes the types that are missing; the F16 file is kept only if it is one of them. Throws ModelError."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    known_shape, sizes = read_sizes(folder) if (folder / SIZES).exists() else (shape, {})
    if known_shape != shape:
        raise ModelError(f"{folder}: has models of the shape {known_shape}; give {shape} another folder")
    missing = [type_ for type_ in types if not present(folder, shape, sizes, type_)]
    if not missing:
        return say(f"{folder}: all {len(types)} models are there")

    # 1. The F16 file, from which the others are made.
    f16 = file_of(folder, shape, "F16")
    if not present(folder, shape, sizes, "F16"):
        _make(lambda part: [hearth, "synth", "--shape", shape, "--quant", "f16", "--out", part], f16, say)
        sizes["F16"] = f16.stat().st_size
        _write_sizes(folder, shape, sizes)

    # 2. The others.
    needed = sum(expected_bytes(sizes["F16"], type_) for type_ in missing if type_ != "F16")
    if shutil.disk_usage(folder).free < needed:
        raise ModelError(f"{folder}: the models take {needed:,} bytes and fewer are free; make room, or "
                         "choose fewer --types")
    for type_ in (type_ for type_ in missing if type_ != "F16"):
        path = file_of(folder, shape, type_)
        _make(lambda part: [quantize, "--pure", f16, part, type_, n_threads], path, say,
              lambda part: check_size(part, sizes["F16"], type_))
        sizes[type_] = path.stat().st_size
        _write_sizes(folder, shape, sizes)
    if "F16" not in types:
        f16.unlink()
        del sizes["F16"]
        _write_sizes(folder, shape, sizes)
