"""Writes tiny models as the folders that Hugging Face's libraries save, for tests of `hearth-profiler convert`.

The scripts that make tiny models call write_checkpoint for each, if --checkpoints is on their command line. Weights are
float16, in which they are exact; names and config.json are those that transformers' save_pretrained gives, which are those
of published models.
"""
import json
import pathlib
import struct
import tempfile

import safetensors.torch

CHECKPOINTS = "--checkpoints"
N_VOCAB = 259


def of_wire(number, kind, payload):
    return bytes([number << 3 | kind]) + (bytes([len(payload)]) if kind == 2 else b"") + payload


def sentencepiece_model(pieces):
    """SentencePiece's message with (text, type) of each piece, scores of 0 and BPE."""
    out = b""
    for text, kind in pieces:
        piece = of_wire(1, 2, text.encode()) + of_wire(2, 5, struct.pack("<f", 0.0)) + of_wire(3, 0, bytes([kind]))
        out += of_wire(1, 2, piece)
    return out + of_wire(2, 2, of_wire(3, 0, bytes([2])))  # trainer_spec.model_type


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_tokenizer(folder, kind):
    """kind: llama (SentencePiece), bert (WordPiece), or gpt2 and opt (byte-level BPE)."""
    if kind == "bert":
        letters = [chr(c) for c in range(33, 127)]
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + letters + ["##" + c for c in letters]
        tokens += [f"[unused{i}]" for i in range(N_VOCAB - len(tokens))]
        special = [token for token in tokens if token.startswith("[") and len(token) > 2]
        added = [{"id": tokens.index(token), "content": token, "special": True} for token in special]
        write_json(folder / "tokenizer.json", {
            "added_tokens": added, "normalizer": None, "pre_tokenizer": {"type": "BertPreTokenizer"},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {t: i for i, t in enumerate(tokens)}}})
        names = {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}
        write_json(folder / "tokenizer_config.json", {f"{role}_token": text for role, text in names.items()})
        return
    if kind in ("gpt2", "opt"):
        printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
        others = [b for b in range(256) if b not in printable]
        letters = [chr(b) if b in printable else chr(256 + others.index(b)) for b in range(256)]
        specials = ["<s>", "<pad>", "</s>"] if kind == "opt" else ["<unk>", "<s>", "</s>"]
        write_json(folder / "tokenizer.json", {
            "added_tokens": [{"id": i, "content": text, "special": True} for i, text in enumerate(specials)],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(specials + letters)}, "merges": ["\u0120 a"]}})
        write_json(folder / "tokenizer_config.json", {"eos_token": "</s>"})
        return
    pieces = [("<unk>", 2), ("<s>", 3), ("</s>", 3)] + [(f"<0x{b:02X}>", 6) for b in range(256)]
    (folder / "tokenizer.model").write_bytes(sentencepiece_model(pieces))
    write_json(folder / "tokenizer_config.json", {"bos_token": "<s>", "eos_token": "</s>"})


def write_pooling(folder, kind):
    """As sentence-transformers says how a model's texts are pooled. Returns the list of modules."""
    modules = [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    write_json(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling/config.json", {f"pooling_mode_{kind}": True})
    return modules


def write_checkpoint(folder, model, vocabulary, published=lambda tensors, config: tensors, half=True):
    """The folder of a transformers model, with a tokenizer of that kind. published: changes tensors and config.json. half:
    weights are exact in float16, and stored so."""
    folder.mkdir()
    with tempfile.TemporaryDirectory() as saved:
        model.save_pretrained(saved)
        saved = pathlib.Path(saved)
        tensors = safetensors.torch.load_file(saved / "model.safetensors")
        config = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    tensors = published(tensors, config)
    if half:
        tensors = {name: data.half() if data.is_floating_point() else data for name, data in tensors.items()}
    # Two files, as large models have them.
    names = sorted(tensors)
    halves = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, part in halves.items():
        safetensors.torch.save_file({name: tensors[name].contiguous() for name in part}, folder / file)
    write_json(folder / "model.safetensors.index.json",
               {"metadata": {}, "weight_map": {name: file for file, part in halves.items() for name in part}})
    write_json(folder / "config.json", config)
    write_tokenizer(folder, vocabulary)
    embeds = vocabulary == "bert" or config["model_type"] == "eurobert"
    if embeds and not config["architectures"][0].endswith("SequenceClassification"):
        first = config["model_type"] == "bert" and config.get("position_embedding_type") != "alibi"
        write_pooling(folder, "cls_token" if first else "mean_tokens")
