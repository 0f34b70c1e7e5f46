"""`hearth-profiler convert`: committed tiny checkpoints, as transformers saves them, become exactly the files
that tests/data/arch has for the same models. A model that cannot run is refused with one message, and leaves
nothing.

tests/profiler/test_convert_oracle.py does the same for every architecture if torch is installed.
HEARTH_BUILD_DIR locates the program. Run by tests/run.sh.
"""
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import time

import gguf
import numpy as np
import pytest

from converted import BUILD, CHECKPOINTS, Checkpoint, assert_same_file, contents, convert, refused

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCH = ROOT / "tests/data/arch"
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")
NAMES = sorted(path.name for path in CHECKPOINTS.iterdir() if path.is_dir())


@pytest.fixture
def tiny(tmp_path):
    """A checkpoint of llama's architecture, to be changed."""
    return Checkpoint.copy_of(CHECKPOINTS / "llama-llama3", tmp_path / "tiny")


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_becomes_the_file_of_the_same_model(name, tmp_path):
    out = tmp_path / f"{name}.gguf"
    done = convert(CHECKPOINTS / name, out, "--type", "f16")
    assert done.returncode == 0, done.stderr
    assert_same_file(out, ARCH / f"{name}.gguf")
    assert list(tmp_path.iterdir()) == [out]


def test_types_have_the_bits_of_the_gguf_package(tmp_path):
    folder = CHECKPOINTS / "llama-llama3"
    made = {}
    for kind in ("f32", "bf16", "q8_0"):
        assert convert(folder, tmp_path / f"{kind}.gguf", "--type", kind).returncode == 0
        made[kind] = contents(tmp_path / f"{kind}.gguf")
    for kind, number in (("bf16", gguf.GGMLQuantizationType.BF16), ("q8_0", gguf.GGMLQuantizationType.Q8_0)):
        checked = 0
        for name, tensor in made[kind].tensors.items():
            plain = made["f32"].tensors[name]
            if tensor.tensor_type == gguf.GGMLQuantizationType.F32:
                assert np.array_equal(tensor.data, plain.data), name
                continue
            assert tensor.tensor_type == number, name
            assert np.array_equal(tensor.data.view(np.uint8).ravel(),
                                  gguf.quants.quantize(plain.data, number).view(np.uint8).ravel()), name
            checked += 1
        assert checked == 16, checked
    assert made["bf16"].keys["general.file_type"] == 32


def test_a_type_is_accepted_in_any_case_and_others_are_refused(tiny, tmp_path):
    assert convert(tiny.folder, tmp_path / "m.gguf", "--type", "Q8_0").returncode == 0
    assert (contents(tmp_path / "m.gguf").tensors["blk.0.ffn_up.weight"].tensor_type
            == gguf.GGMLQuantizationType.Q8_0)
    unknown = convert(tiny.folder, tmp_path / "n.gguf", "--type", "Q4_K_M")
    assert unknown.returncode == 2 and "hearth-profiler quantize" in unknown.stderr, unknown.stderr


def test_auto_is_the_checkpoints_own_type_and_the_folder_names_the_model(tiny, tmp_path):
    tiny.change(lambda name, data: (data.astype("<f4").view("<u4") >> 16).astype("<u2"), "BF16")
    assert convert(tiny.folder, tmp_path / "m.gguf").returncode == 0
    made = contents(tmp_path / "m.gguf")
    assert made.tensors["blk.0.ffn_up.weight"].tensor_type == gguf.GGMLQuantizationType.BF16
    assert made.keys["general.name"] == "tiny"
    assert convert(tiny.folder, tmp_path / "n.gguf", "--name", "My model").returncode == 0
    assert contents(tmp_path / "n.gguf").keys["general.name"] == "My model"


def test_the_cache_of_hugging_faces_libraries_converts(tiny, tmp_path):
    """The files are links, and the folder is named by a hash."""
    cache = tmp_path / "models--someone--Tiny-1B"
    (cache / "snapshots/0123abcd").mkdir(parents=True)
    for file in tiny.folder.iterdir():
        (cache / "snapshots/0123abcd" / file.name).symlink_to(file)
    done = convert(cache / "snapshots/0123abcd", tmp_path / "m.gguf")
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "m.gguf").keys["general.name"] == "Tiny-1B"


def test_fp8_in_blocks_is_scaled(tiny, tmp_path):
    rng = np.random.default_rng(1)
    codes = {}

    def to_fp8(name, data):
        if not name.endswith("_proj.weight"):
            return data
        code = rng.integers(0, 256, data.shape).astype(np.uint8)
        code[(code & 127) == 127] = 0  # not a number
        scales = rng.uniform(0.25, 2.0, [(n + 31) // 32 for n in data.shape]).astype("<f4")
        codes[name] = code, scales
        return code

    tiny.change(to_fp8, lambda name: "F8_E4M3" if name.endswith("_proj.weight") else "F16")
    for name, (_, scales) in codes.items():
        tiny.tensors[name + "_scale_inv"] = ("F32", scales)
    tiny.config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [32, 32]}
    tiny.write()
    assert convert(tiny.folder, tmp_path / "m.gguf", "--type", "f32").returncode == 0
    code, scales = codes["model.layers.1.mlp.down_proj.weight"]
    exponent, mantissa = (code >> 3 & 15).astype(int), (code & 7).astype(np.float64)
    value = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))
    value = np.where(code & 128, -value, value).astype(np.float32)
    wanted = value * np.repeat(np.repeat(scales, 32, 0), 32, 1)[: code.shape[0], : code.shape[1]]
    assert np.array_equal(contents(tmp_path / "m.gguf").tensors["blk.1.ffn_down.weight"].data, wanted)


def test_values_beyond_half_precision_are_reported(tiny, tmp_path):
    def grow(name, data):
        data = data.astype("<f4")
        if name == "model.layers.0.mlp.up_proj.weight":
            data[3, 5] = 1e6
        return data

    tiny.change(grow, "F32")
    done = convert(tiny.folder, tmp_path / "m.gguf", "--type", "f16")
    assert done.returncode == 0 and "1 values are beyond half precision" in done.stderr, done.stderr


def test_one_file_and_several_make_the_same(tiny, tmp_path):
    assert convert(CHECKPOINTS / "llama-llama3", tmp_path / "two.gguf", "--name", "m").returncode == 0
    tiny.write()  # one file
    assert convert(tiny.folder, tmp_path / "one.gguf", "--name", "m").returncode == 0
    one, two = contents(tmp_path / "one.gguf"), contents(tmp_path / "two.gguf")
    assert one.keys == two.keys
    assert {name: t.data.tobytes() for name, t in one.tensors.items()} == \
        {name: t.data.tobytes() for name, t in two.tensors.items()}


def test_fused_experts_make_what_single_ones_do(tmp_path):
    """Newer libraries save all experts of a layer in one tensor."""
    source = CHECKPOINTS / "deepseek2-lite"
    fused = Checkpoint.copy_of(source, tmp_path / "fused")
    layers = {name.split(".mlp.")[0] for name in fused.tensors if ".experts.0." in name}
    for layer in layers:
        parts = {kind: [fused.tensors.pop(f"{layer}.mlp.experts.{i}.{kind}_proj.weight")[1] for i in range(8)]
                 for kind in ("gate", "up", "down")}
        both = [np.concatenate(pair) for pair in zip(parts["gate"], parts["up"])]
        fused.tensors[f"{layer}.mlp.experts.gate_up_proj"] = ("F16", np.stack(both))
        fused.tensors[f"{layer}.mlp.experts.down_proj"] = ("F16", np.stack(parts["down"]))
    fused.write()
    assert len(layers) == 2
    done = convert(fused.folder, tmp_path / "m.gguf", "--type", "f16")
    assert done.returncode == 0, done.stderr
    assert_same_file(tmp_path / "m.gguf", ARCH / "deepseek2-lite.gguf")


def test_experts_of_qwen3_vl_may_be_turned_or_not(tmp_path):
    """Published files hold matrices [inputs, outputs]; transformers 5 saves [outputs, inputs]."""
    saved = Checkpoint.copy_of(CHECKPOINTS / "qwen3vlmoe", tmp_path / "saved")
    shape = saved.tensors["model.language_model.layers.0.mlp.experts.gate_up_proj"][1].shape
    assert shape == (8, 32, 48)
    saved.change(lambda name, data: data.swapaxes(1, 2) if ".experts." in name else data, "F16")
    done = convert(saved.folder, tmp_path / "m.gguf", "--type", "f16")
    assert done.returncode == 0, done.stderr
    assert_same_file(tmp_path / "m.gguf", ARCH / "qwen3vlmoe.gguf")


def test_granite_4_without_recurrent_layers_is_a_model_of_the_older_architecture(tmp_path):
    plain = Checkpoint.copy_of(CHECKPOINTS / "granitehybrid-dense", tmp_path / "plain")
    plain.tensors = {name.replace("layers.1.", "layers.0."): tensor for name, tensor in plain.tensors.items()
                     if "layers." not in name or "layers.1." in name}
    plain.config.update(num_hidden_layers=1, layer_types=["attention"])
    plain.write()
    done = convert(plain.folder, tmp_path / "m.gguf", "--type", "f16")
    assert done.returncode == 0, done.stderr
    keys = contents(tmp_path / "m.gguf").keys
    assert keys["general.architecture"] == "granite" and keys["granite.feed_forward_length"] == 48
    assert keys["granite.attention.scale"] == 0.25 and "granite.expert_used_count" not in keys


def test_layers_that_predict_further_tokens_follow_the_others(tmp_path):
    """Qwen 3.5 stores them as mtp.layers.N, and what all of them share as mtp.X."""
    deep = Checkpoint.copy_of(CHECKPOINTS / "qwen35", tmp_path / "deep")
    layer = "model.layers.3."
    for name in [name for name in deep.tensors if name.startswith(layer)]:
        deep.tensors["mtp.layers.0." + name.removeprefix(layer)] = deep.tensors[name]
    width = deep.config["hidden_size"]
    kind, norm = deep.tensors["model.norm.weight"]
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        deep.tensors[f"mtp.{name}.weight"] = (kind, norm)
    fc = np.arange(2 * width * width).reshape(width, 2 * width) / 2048
    deep.tensors["mtp.fc.weight"] = ("F16", fc.astype("<f2"))
    deep.write()
    done = convert(deep.folder, tmp_path / "m.gguf", "--type", "f16")
    assert done.returncode == 0, done.stderr
    made = contents(tmp_path / "m.gguf")
    assert made.keys["qwen35.block_count"] == 6 and made.keys["qwen35.nextn_predict_layers"] == 1
    assert made.keys["qwen35.attention.recurrent_layers"] == [True, True, True, False, True, False]
    parts = {name.removeprefix("blk.3.") for name in made.tensors if name.startswith("blk.3.")}
    added = {name.removeprefix("blk.5.") for name in made.tensors if name.startswith("blk.5.")}
    assert added == parts | {f"nextn.{name}.weight"
                             for name in ("eh_proj", "enorm", "hnorm", "shared_head_norm")}
    assert np.array_equal(made.tensors["blk.5.nextn.eh_proj.weight"].data, fc.astype("<f2"))
    assert np.array_equal(made.tensors["blk.5.nextn.hnorm.weight"].data,
                          made.tensors["output_norm.weight"].data)


def test_older_configs_of_lfm2_give_the_layers_by_numbers_and_the_width_by_a_rule(tmp_path):
    dense = Checkpoint.copy_of(CHECKPOINTS / "lfm2moe", tmp_path / "dense")
    ffn = "model.layers.0.feed_forward."
    for name in [name for name in dense.tensors if ".feed_forward." in name and not name.startswith(ffn)]:
        del dense.tensors[name]
    for name in [name for name in dense.tensors if name.startswith(ffn)]:
        for layer in (1, 2, 3):
            dense.tensors[name.replace(".0.", f".{layer}.")] = dense.tensors[name]
    for field in ("layer_types", "intermediate_size", "num_experts", "num_experts_per_tok"):
        del dense.config[field]
    # Two thirds of 130 are 86; 1.1 times that is 94, and the next multiple of 32 is 96.
    dense.config |= {"architectures": ["Lfm2ForCausalLM"], "full_attn_idxs": [2], "block_ff_dim": 130,
                     "block_ffn_dim_multiplier": 1.1, "block_multiple_of": 32}
    dense.write()
    done = convert(dense.folder, tmp_path / "m.gguf", "--type", "f16")
    assert done.returncode == 0, done.stderr
    made = contents(tmp_path / "m.gguf")
    assert made.keys["lfm2.feed_forward_length"] == 96
    assert made.keys["lfm2.attention.head_count_kv"] == [0, 0, 2, 0]
    assert made.tensors["blk.3.shortconv.conv.weight"].tensor_type == gguf.GGMLQuantizationType.F32
    for field, value, says in (("full_attn_idxs", None, "layer_types does not say of each of 4 layers"),
                               ("conv_bias", True, "conv_bias is true: convolutions with biases do not run"),
                               ("block_multiple_of", 0,
                                "block_multiple_of is 0 and intermediate_size is 130")):
        bad = Checkpoint.copy_of(dense.folder, tmp_path / field)
        bad.config[field] = value
        bad.write()
        assert says in refused(convert(bad.folder, tmp_path / "bad.gguf"))


def test_gates_of_gemma3n_are_cut_at_quantiles(tmp_path):
    """Files have how many deviations above the mean of normal numbers such a share of them lies."""
    tiny = Checkpoint.copy_of(CHECKPOINTS / "gemma3n", tmp_path / "tiny")
    tiny.config["activation_sparsity_pattern"] = [0.95, 0.6914625, 0.5, 0.0, 0.158655254, 0.999]
    tiny.write()
    assert convert(tiny.folder, tmp_path / "m.gguf").returncode == 0
    cuts = contents(tmp_path / "m.gguf").keys["gemma3n.activation_sparsity_scale"]
    assert cuts == pytest.approx([1.6448536, 0.5, 0.0, float("-inf"), -1.0, 3.0902323], abs=1e-6)
    tiny.config["activation_sparsity_pattern"] = 1.0
    tiny.write()
    assert "expected a share below 1" in refused(convert(tiny.folder, tmp_path / "n.gguf"))


def test_the_embeddings_of_layers_get_rows_of_zeros_for_the_rest_of_the_vocabulary(tmp_path):
    """Gemma 3n has none for the tokens of images and sound."""
    tiny = Checkpoint.copy_of(CHECKPOINTS / "gemma3n", tmp_path / "tiny")
    name = "model.embed_tokens_per_layer.weight"
    kind, table = tiny.tensors[name]
    tiny.tensors[name] = (kind, table[:-9])
    tiny.write()
    assert convert(tiny.folder, tmp_path / "m.gguf", "--type", "f16").returncode == 0
    made = contents(tmp_path / "m.gguf").tensors["per_layer_token_embd.weight"].data
    assert np.array_equal(made[:-9], table[:-9]) and made.shape == table.shape and not made[-9:].any()


def test_a_published_config_of_kimi_linear_numbers_its_attention_from_one(tmp_path):
    tiny = Checkpoint.copy_of(CHECKPOINTS / "kimi-linear", tmp_path / "tiny")
    for field in ("layer_types", "mlp_layer_types", "linear_head_dim", "linear_num_heads",
                  "linear_conv_kernel_dim"):
        del tiny.config[field]
    tiny.config |= {"first_k_dense_replace": 1, "linear_attn_config": {
        "full_attn_layers": [3], "kda_layers": [1, 2, 4], "head_dim": 16, "num_heads": 3,
        "short_conv_kernel_size": 4}}
    tiny.write()
    done = convert(tiny.folder, tmp_path / "m.gguf", "--type", "f16")
    assert done.returncode == 0, done.stderr
    assert_same_file(tmp_path / "m.gguf", ARCH / "kimi-linear.gguf")
    tiny.config["linear_attn_config"]["full_attn_layers"] = [0]
    tiny.write()
    assert "expected numbers of layers from 1 to 4" in refused(convert(tiny.folder, tmp_path / "n.gguf"))


def test_multipliers_of_falcon_h1_that_no_file_can_hold_are_refused(tmp_path):
    for field, value, says in (("mlp_multipliers", [2.0], "mlp_multipliers does not have 2 numbers"),
                               ("ssm_multipliers", 1.0, "ssm_multipliers does not have 5 numbers"),
                               ("mlp_bias", True, "mlp_bias is true"),
                               ("tie_word_embeddings", True, "both multiply the same matrix")):
        bad = Checkpoint.copy_of(CHECKPOINTS / "falcon-h1", tmp_path / field)
        bad.config[field] = value
        bad.write()
        assert says in refused(convert(bad.folder, tmp_path / "bad.gguf"))


def test_numbers_of_apertus_layers_that_are_missing_are_refused(tmp_path):
    bad = Checkpoint.copy_of(CHECKPOINTS / "apertus", tmp_path / "bad")
    name = "model.layers.1.mlp.act_fn.alpha_n"
    del bad.tensors[name]
    bad.write()
    said = refused(convert(bad.folder, tmp_path / "bad.gguf"))
    assert name in said and "expected one number for each layer" in said
    bad.tensors[name] = ("F16", np.ones(2, "<f2"))
    bad.write()
    assert "holds 2 numbers of type F16, expected one" in refused(convert(bad.folder, tmp_path / "bad.gguf"))


def test_dense_layers_of_other_kinds_are_refused(tmp_path):
    def module_of(name):
        tiny = Checkpoint.copy_of(CHECKPOINTS / "gemma-embedding", tmp_path / name)
        return tiny, tiny.folder / "2_Dense"

    tiny, module = module_of("tanh")
    config = json.loads((module / "config.json").read_text())
    (module / "config.json").write_text(json.dumps(config | {"activation_function": "torch.nn.Tanh"}))
    assert "without bias and activation" in refused(convert(tiny.folder, tmp_path / "m.gguf"))
    tiny, module = module_of("missing")
    (module / "model.safetensors").unlink()
    assert "2_Dense" in refused(convert(tiny.folder, tmp_path / "m.gguf"))
    tiny, module = module_of("alone")
    modules = json.loads((tiny.folder / "modules.json").read_text())
    (tiny.folder / "modules.json").write_text(json.dumps(modules[:2]))
    assert "has 1 dense layers, expected two or none" in refused(convert(tiny.folder, tmp_path / "m.gguf"))
    tiny, module = module_of("outside")
    modules[1]["path"] = "../2_Dense"
    (tiny.folder / "modules.json").write_text(json.dumps(modules))
    assert "expected a folder in it" in refused(convert(tiny.folder, tmp_path / "m.gguf"))


def test_the_chat_template_and_end_tokens_are_converted_too(tiny, tmp_path):
    (tiny.folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    (tiny.folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 7, 9]}))
    assert convert(tiny.folder, tmp_path / "m.gguf").returncode == 0
    keys = contents(tmp_path / "m.gguf").keys
    assert keys["tokenizer.chat_template"] == "{{ messages[0].content }}"
    assert [keys[f"tokenizer.ggml.{name}_token_id"] for name in ("eos", "eot", "eom")] == [2, 7, 9]


def test_recommended_sampling_parameters_are_converted_if_they_are_in_range(tiny, tmp_path):
    def sampling_of(fields):
        (tiny.folder / "generation_config.json").write_text(json.dumps(fields))
        assert convert(tiny.folder, tmp_path / "m.gguf", "--force").returncode == 0
        reader = gguf.GGUFReader(tmp_path / "m.gguf")
        return {name.removeprefix("general.sampling."): (field.contents(), field.types[0].name)
                for name, field in reader.fields.items() if name.startswith("general.sampling.")}
    found = sampling_of({"do_sample": True, "temperature": 0.5, "top_k": 20, "top_p": 1, "min_p": 0.0625,
                         "repetition_penalty": 1.25})
    assert found == {"temp": (0.5, "FLOAT32"), "top_k": (20, "INT32"), "top_p": (1.0, "FLOAT32"),
                     "min_p": (0.0625, "FLOAT32"), "penalty_repeat": (1.25, "FLOAT32"),
                     "penalty_last_n": (-1, "INT32")}
    assert sampling_of({"temperature": 2.5, "top_k": 2.5, "top_p": 0, "min_p": 1}) == {}
    assert sampling_of({"repetition_penalty": "x", "temperature": "0.5"}) == {}
    assert sampling_of({"temperature": None, "top_k": -1, "top_p": True}) == {}
    assert sampling_of([0.5]) == {}


def test_tokens_that_must_not_be_generated_are_converted(tiny, tmp_path):
    (tiny.folder / "generation_config.json").write_text(json.dumps({"suppress_tokens": [9, 7, 1000000, "x"]}))
    assert convert(tiny.folder, tmp_path / "m.gguf").returncode == 0
    field = gguf.GGUFReader(tmp_path / "m.gguf").fields["tokenizer.ggml.suppress_tokens"]
    assert field.contents() == [9, 7]
    assert [kind.name for kind in field.types] == ["ARRAY", "INT32"]


BYTES = [f"<0x{b:02X}>" for b in range(256)]


def test_sentencepiece_in_json_gets_scores_by_its_merges(tiny, tmp_path):
    (tiny.folder / "tokenizer.model").unlink()
    tokens = ["<unk>", "<s>", "</s>"] + BYTES[:-6] + ["a", "b", "c", "ab", "abc", "\u2581"]
    (tiny.folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [{"id": i, "content": tokens[i], "special": True} for i in range(3)],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}]},
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]},
        "model": {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>",
                  "vocab": {t: i for i, t in enumerate(tokens)},
                  "merges": [["a", "b"], ["ab", "c"]]}}))
    done = convert(tiny.folder, tmp_path / "m.gguf")
    assert done.returncode == 0, done.stderr
    keys = contents(tmp_path / "m.gguf").keys
    assert keys["tokenizer.ggml.model"] == "llama" and keys["tokenizer.ggml.add_bos_token"] is True
    scores = dict(zip(keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.scores"]))
    assert scores["ab"] == 0.0 and scores["abc"] == -1.0 and scores["a"] < -1.0
    assert keys["tokenizer.ggml.token_type"][:4] == [2, 3, 3, 6]


def write_byte_level(folder, pre_tokenizer, **model):
    printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
    others = [b for b in range(256) if b not in printable]
    letters = [chr(b) if b in printable else chr(256 + others.index(b)) for b in range(256)]
    (folder / "tokenizer.model").unlink(missing_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [{"id": 256, "content": "<|end|>", "special": True},
                         {"id": 257, "content": "<tool>", "special": False}],
        "pre_tokenizer": pre_tokenizer, "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(letters)},
                  "merges": [["\u0120", "a"], "a b"], **model}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|end|>"}}))


def test_byte_level_tokens_types_and_merges(tiny, tmp_path):
    write_byte_level(tiny.folder, {"type": "ByteLevel"})
    done = convert(tiny.folder, tmp_path / "m.gguf")
    assert done.returncode == 0, done.stderr
    keys = contents(tmp_path / "m.gguf").keys
    assert keys["tokenizer.ggml.tokens"][-3:] == ["<|end|>", "<tool>", "[PAD258]"]
    assert keys["tokenizer.ggml.token_type"][-4:] == [1, 3, 4, 5]
    assert keys["tokenizer.ggml.merges"] == ["\u0120 a", "a b"]
    assert keys["tokenizer.ggml.pre"] == "gpt-2" and keys["tokenizer.ggml.eos_token_id"] == 256
    assert keys["tokenizer.ggml.add_bos_token"] is False


def test_a_reranker_of_qwen3_gets_the_rows_of_yes_and_no_and_the_prompt(tiny, tmp_path):
    """config.json is that of a plain Qwen 3; the README or the name tells."""
    tiny.config |= {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
                    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    for layer in range(tiny.config["num_hidden_layers"]):
        for part in "qk":
            name = f"model.layers.{layer}.self_attn.{part}_norm.weight"
            tiny.tensors[name] = ("F16", np.ones(tiny.config["head_dim"], "<f2"))
    tiny.write()
    write_byte_level(tiny.folder, {"type": "ByteLevel"})
    tokenizer = json.loads((tiny.folder / "tokenizer.json").read_text())
    del tokenizer["added_tokens"][1]
    tokenizer["model"]["vocab"] |= {"no": 257, "yes": 258}
    (tiny.folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    plain = convert(tiny.folder, tmp_path / "plain.gguf", "--type", "f16")
    assert plain.returncode == 0, plain.stderr
    assert "cls.output.weight" not in contents(tmp_path / "plain.gguf").tensors
    (tiny.folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Qwen3-Reranker-0.6B\n")
    for out, more in (("by_readme.gguf", ()), ("by_name.gguf", ("--name", "My Qwen3-Reranker"))):
        done = convert(tiny.folder, tmp_path / out, "--type", "f16", *more)
        assert done.returncode == 0, done.stderr
        (tiny.folder / "README.md").unlink(missing_ok=True)
        made = contents(tmp_path / out)
        yes, no = (made.keys["tokenizer.ggml.tokens"].index(answer) for answer in ("yes", "no"))
        assert (yes, no) == (258, 257)
        rows = made.tensors["output.weight"].data[[yes, no]]
        assert np.array_equal(made.tensors["cls.output.weight"].data, rows)
        assert made.keys["qwen3.pooling_type"] == 4
        assert made.keys["qwen3.classifier.output_labels"] == ["yes", "no"]
        assert "{query}" in made.keys["tokenizer.chat_template.rerank"]
    tokenizer["model"]["vocab"]["nope"] = tokenizer["model"]["vocab"].pop("no")
    (tiny.folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    said = refused(convert(tiny.folder, tmp_path / "m.gguf", "--name", "qwen3-reranker"))
    assert 'has no token "no"' in said


def test_merges_over_characters_of_gemma4_are_kept(tmp_path):
    """Tokens around calls and thinking are part of the text, although the checkpoint calls them special."""
    tiny = Checkpoint.copy_of(CHECKPOINTS / "gemma4", tmp_path / "tiny")
    (tiny.folder / "tokenizer.model").unlink()
    words = ["<pad>", "<bos>", "<eos>", "a", "b", "ab", "\u2581", *(f"<0x{b:02X}>" for b in range(240))]
    added = [{"id": 250, "content": "<|tool_call>", "special": True},
             {"id": 251, "content": "<turn|>", "special": True}]
    (tiny.folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [{"id": i, "content": text, "special": True}
                         for i, text in enumerate(words[:3])] + added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "model": {"type": "BPE", "byte_fallback": True, "vocab": {text: i for i, text in enumerate(words)},
                  "merges": [["a", "b"]]}}))
    (tiny.folder / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<bos>", "eos_token": "<eos>"}))
    done = convert(tiny.folder, tmp_path / "m.gguf")
    assert done.returncode == 0, done.stderr
    keys = contents(tmp_path / "m.gguf").keys
    assert keys["tokenizer.ggml.model"] == "gemma4" and keys["tokenizer.ggml.merges"] == ["a b"]
    assert [keys["tokenizer.ggml.token_type"][i] for i in (0, 3, 7, 250, 251)] == [3, 1, 6, 4, 3]
    assert keys["tokenizer.ggml.add_bos_token"] is True and keys["tokenizer.ggml.add_space_prefix"] is False


def test_an_unknown_pre_tokenizer_is_refused_until_it_is_named(tiny, tmp_path):
    odd = {"type": "Sequence",
           "pretokenizers": [{"type": "Split", "pattern": {"Regex": "[aeiou]"}, "behavior": "Isolated"},
                             {"type": "ByteLevel", "use_regex": False}]}
    write_byte_level(tiny.folder, odd)
    assert "cuts text into words like no pre-tokenizer" in refused(convert(tiny.folder, tmp_path / "m.gguf"))
    assert convert(tiny.folder, tmp_path / "m.gguf", "--pre", "qwen2").returncode == 0
    assert contents(tmp_path / "m.gguf").keys["tokenizer.ggml.pre"] == "qwen2"


def test_a_relu_checkpoint_says_so(tiny, tmp_path):
    tiny.config["hidden_act"] = "relu"
    tiny.write()
    assert convert(tiny.folder, tmp_path / "m.gguf").returncode == 0
    assert contents(tmp_path / "m.gguf").keys["hearth.ffn_activation"] == "relu"


def changed(**fields):
    return lambda tiny: tiny.config.update(fields)


REFUSED = {
    "another class": (changed(architectures=["MambaForCausalLM"]),
                      'is a "MambaForCausalLM", which does not convert yet'),
    "another activation": (changed(hidden_act="mish"), 'activation is "mish"'),
    "quantized": (changed(quantization_config={"quant_method": "gptq"}), 'weights are quantized ("gptq")'),
    "an unknown scaling": (changed(rope_parameters={"rope_type": "spiral", "factor": 2.0}),
                           'rope_type is "spiral"'),
    "a tensor too many": (lambda tiny: tiny.tensors.update(
                              {"model.layers.0.mlp.router.weight": ("F16", np.ones((2, 64), "<f2"))}),
                          "has no place in files of llama"),
    "a tensor too few": (lambda tiny: tiny.tensors.pop("model.layers.1.mlp.up_proj.weight"),
                         "blk.1.ffn_up.weight"),
    "a wrong size": (changed(hidden_size=128), "would not run"),
    "a head without end": (changed(head_dim=2**31), "head_dim is 2147483648, expected from 2 to 65536"),
    "heads without a width": (changed(head_dim=0), "head_dim is 0"),
    "no layers": (changed(num_hidden_layers=None), "is missing, expected a number"),
    "an integer tensor": (lambda tiny: tiny.tensors.update(
                              {"model.norm.weight": ("I32", np.ones(64, "<i4"))}),
                          "is I32, expected"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_checkpoint_that_cannot_run_is_refused_and_leaves_nothing(what, tiny, tmp_path):
    change, sentence = REFUSED[what]
    change(tiny)
    tiny.write()
    out = tmp_path / "out"
    out.mkdir()
    assert sentence in refused(convert(tiny.folder, out / "m.gguf"))
    assert list(out.iterdir()) == []


def test_files_that_are_missing_or_cut_off_are_refused(tiny, tmp_path):
    out = tmp_path / "m.gguf"
    assert "there is no such folder" in refused(convert(tmp_path / "nowhere", out))
    (tiny.folder / "model-00002-of-00002.safetensors").unlink()
    assert "is missing" in refused(convert(tiny.folder, out))
    part = tiny.folder / "model-00001-of-00002.safetensors"
    shutil.copy(part, tiny.folder / "model-00002-of-00002.safetensors")
    assert "is in two of its files" in refused(convert(tiny.folder, out))
    part.write_bytes(part.read_bytes()[:-100])
    assert "cut off" in refused(convert(tiny.folder, out))
    tiny.write()
    (tiny.folder / "tokenizer.model").unlink()
    assert "expected the tokenizer's files" in refused(convert(tiny.folder, out))
    (tiny.folder / "tokenizer.model").write_bytes(b"\x0a\xff\xff\xff\xff")
    assert "tokenizer.model" in refused(convert(tiny.folder, out))
    (tiny.folder / "model.safetensors").unlink()
    (tiny.folder / "pytorch_model.bin").write_bytes(b"x")
    assert "pickled" in refused(convert(tiny.folder, out))
    assert not out.exists()


def test_a_file_that_exists_is_replaced_only_if_asked(tiny, tmp_path):
    out = tmp_path / "m.gguf"
    out.write_text("mine")
    assert "--force" in refused(convert(tiny.folder, out))
    assert out.read_text() == "mine"
    assert convert(tiny.folder, out, "--force").returncode == 0
    assert out.read_bytes()[:4] == b"GGUF"


def test_the_checkpoints_own_files_are_never_written_over(tiny, tmp_path):
    tiny.write()
    weights = (tiny.folder / "model.safetensors").read_bytes()
    (tmp_path / "link").symlink_to(tiny.folder / "model.safetensors")
    for out in (tiny.folder / "model.safetensors", tiny.folder / "config.json", tmp_path / "link"):
        assert "a file of the checkpoint itself" in refused(convert(tiny.folder, out, "--force"))
    assert (tiny.folder / "model.safetensors").read_bytes() == weights
    assert convert(tiny.folder, tiny.folder / "model.gguf").returncode == 0
    assert convert(tiny.folder, tiny.folder / "model.gguf", "--force").returncode == 0


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_json_that_nests_without_end_is_refused(file, tiny, tmp_path):
    """Values are copied and printed recursively, so deep nesting would overflow the stack."""
    tiny.write()
    deep = b'{"num_hidden_layers": ' + b"[" * 300_000 + b"]" * 300_000 + b"}"
    length = struct.pack("<Q", len(deep)) if file == "model.safetensors" else b""
    (tiny.folder / file).write_bytes(length + deep)
    assert re.search("is not (a )?JSON", refused(convert(tiny.folder, tmp_path / "m.gguf")))


def test_a_long_token_takes_no_longer_than_its_bytes(tiny, tmp_path):
    write_byte_level(tiny.folder, {"type": "ByteLevel"})
    tokenizer = json.loads((tiny.folder / "tokenizer.json").read_text())
    # an algorithm of quadratic time would take hours
    tokenizer["added_tokens"].append({"id": 258, "content": "\u2581" * 2_000_000})
    tokenizer["model"]["merges"].append(["a" + " " * 2_000_000, "b"])
    (tiny.folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert convert(tiny.folder, tmp_path / "m.gguf").returncode == 0
    assert contents(tmp_path / "m.gguf").keys["tokenizer.ggml.tokens"][258] == " " * 2_000_000


def test_an_interrupt_leaves_nothing_and_memory_stays_small(tiny, tmp_path):
    """The embedding is a hole of 2 GB in its file, so that writing it takes a while."""
    rows, width = 1_000_000, 1024
    tiny.config.update(vocab_size=rows, hidden_size=width, head_dim=width // 4, tie_word_embeddings=True,
                       num_hidden_layers=1)
    shapes = {"input_layernorm": (width,),
              "post_attention_layernorm": (width,), "self_attn.q_proj": (width, width),
              "self_attn.k_proj": (width // 2, width), "self_attn.v_proj": (width // 2, width),
              "self_attn.o_proj": (width, width), "mlp.gate_proj": (96, width), "mlp.up_proj": (96, width),
              "mlp.down_proj": (width, 96)}
    tiny.tensors = {f"model.layers.0.{name}.weight": ("F16", np.zeros(shape, "<f2"))
                    for name, shape in shapes.items()}
    tiny.tensors["model.norm.weight"] = ("F16", np.zeros(width, "<f2"))
    tiny.write()
    (tiny.folder / "model.safetensors").rename(tiny.folder / "layer.safetensors")
    entry = {"dtype": "F16", "shape": [rows, width], "data_offsets": [0, 2 * rows * width]}
    header = json.dumps({"model.embed_tokens.weight": entry}).encode()
    with open(tiny.folder / "hole.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + 2 * rows * width)
    files = {**{name: "layer.safetensors" for name in tiny.tensors},
             "model.embed_tokens.weight": "hole.safetensors"}
    (tiny.folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    out = tmp_path / "out"
    out.mkdir()
    program = subprocess.Popen([pathlib.Path(BUILD) / "hearth-profiler", "convert", tiny.folder,
                                "--out", out / "m.gguf", "--type", "f16"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    part = out / "m.gguf.part"
    while program.poll() is None and not (part.exists() and part.stat().st_blocks * 512 > 100_000_000):
        time.sleep(0.02)  # until it is in the middle of the embedding
    status = pathlib.Path(f"/proc/{program.pid}/status").read_text()
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=60)
    assert program.returncode == 130, (program.returncode, errors)
    assert "the unfinished file is removed" in errors
    assert list(out.iterdir()) == []
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
    assert peak < 500_000  # kB: enough for the texts of a million tokens and their keys, but for no tensor


def places(value, path=()):
    """Every location in a JSON document."""
    yield path
    children = (value.items() if isinstance(value, dict)
                else enumerate(value) if isinstance(value, list) else ())
    for key, child in itertools.islice(children, 40):
        yield from places(child, (*path, key))


@pytest.mark.parametrize("name", ["deepseek2-lite", "gpt-oss-mxfp4", "bert", "gemma2", "qwen35", "gemma4",
                                  "lfm2moe"])
def test_other_values_in_json_files_are_refused_or_converted_and_nothing_else(name, tmp_path):
    """Each run puts a value of another kind somewhere into one of the JSON files. The result must be a file
    or one message."""
    rng = np.random.default_rng(len(name))
    folder, out = tmp_path / "m", tmp_path / "out"
    shutil.copytree(CHECKPOINTS / name, folder)
    out.mkdir()
    write_byte_level(folder, {"type": "ByteLevel"}) if name == "gemma2" else None
    files = sorted(folder.glob("*.json"))
    values = [None, True, -1, 0, 3, 1e300, 2**40, "", "x", [], {}, [[1]], {"a": 1}]
    for _ in range(25):
        file = files[rng.integers(len(files))]
        whole = file.read_text()
        document = json.loads(whole)
        path = list(places(document))[1:]
        path = path[rng.integers(len(path))]
        parent = document
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = values[rng.integers(len(values))]
        file.write_text(json.dumps(document))
        done = convert(folder, out / "m.gguf")
        what = (file.name, path, parent[path[-1]], done.returncode, done.stderr)
        assert done.returncode in (0, 2), what
        if done.returncode == 0:
            gguf.GGUFReader(out / "m.gguf")
            (out / "m.gguf").unlink()
        else:
            assert done.stderr.count("\n") == 1 and done.stderr.startswith("hearth-profiler: "), what
        assert list(out.iterdir()) == [], what
        file.write_text(whole)
