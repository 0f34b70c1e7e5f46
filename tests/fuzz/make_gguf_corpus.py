"""Writes the seeds of fuzz_gguf into tests/fuzz/corpus/gguf: small GGUF files, one for each thing the parser
knows.

Needs Python only. The files are committed; run this again after adding a seed.
"""
import pathlib
import struct

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus" / "gguf"


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, kind, payload):
    return text(name) + struct.pack("<I", kind) + payload


def array(name, element, count, payload):
    return key(name, 9, struct.pack("<IQ", element, count) + payload)


def tensor(name, dims, kind, offset):
    return text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}QIQ", *dims, kind, offset)


def file(keys=(), tensors=(), data=b"", version=3, alignment=32):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(keys) + b"".join(tensors)
    if tensors:
        out += b"\0" * (-len(out) % alignment)
    return out + data


SCALARS = [key(f"k{kind}", kind, struct.pack(form, value)) for kind, form, value in [
    (0, "<B", 1), (1, "<b", -1), (2, "<H", 2), (3, "<h", -2), (4, "<I", 3), (5, "<i", -3), (6, "<f", 0.5),
    (7, "<?", True), (10, "<Q", 4), (11, "<q", -4), (12, "<d", 0.25)]]
ARCHITECTURE = key("general.architecture", 8, text("llama"))


def model(architecture, shapes, magic=b"GGUF", floats=(), more=None, keys_more=(), values=None):
    """A whole model with one layer: width 4, FFN 6, two heads, vocabulary 3. Weights are all 0.5, F32. more:
    further integer keys of the architecture, or None to leave a key out; keys_more: other keys; values: other
    weights of tensors."""
    numbers = {"block_count": 1, "context_length": 4, "embedding_length": 4, "feed_forward_length": 6,
               "attention.head_count": 2, **(more or {})}
    keys = [key("general.architecture", 8, text(architecture))]
    keys += [key(f"{architecture}.{name}", 4, struct.pack("<I", value)) for name, value in numbers.items()
             if value is not None]
    keys += [key(name, 6, struct.pack("<f", value)) for name, value in floats]
    keys += keys_more
    entries, data = [], b""
    for name, dims in shapes.items():
        entries.append(tensor(name, dims, 0, len(data)))
        n = 1
        for size in dims:
            n *= size
        data += struct.pack("<f", (values or {}).get(name, 0.5)) * n
        data += b"\0" * (-len(data) % 32)
    return magic + file(keys, entries, data)[4:]


WIDE, SQUARE, NEURONS = [4], [4, 4], [4, 6]
SPARSE_LLAMA = {
    "token_embd.weight": [4, 3], "output_norm.weight": WIDE, "output.weight": [4, 3],
    "blk.0.attn_norm.weight": WIDE,
    "blk.0.attn_q.weight": SQUARE, "blk.0.attn_k.weight": SQUARE, "blk.0.attn_v.weight": SQUARE,
    "blk.0.attn_output.weight": SQUARE, "blk.0.ffn_norm.weight": WIDE, "blk.0.ffn_gate.weight": NEURONS,
    "blk.0.ffn_up.weight": NEURONS, "blk.0.ffn_down_t.weight": NEURONS, "blk.0.fc1.weight": [4, 2],
    "blk.0.fc2.weight": [2, 6]}
FALCON = {
    "token_embd.weight": [4, 3], "output_norm.weight": WIDE, "output_norm.bias": WIDE,
    "blk.0.attn_norm.weight": WIDE,
    "blk.0.attn_norm.bias": WIDE, "blk.0.attn_norm_2.weight": WIDE, "blk.0.attn_norm_2.bias": WIDE,
    "blk.0.attn_qkv.weight": [4, 12], "blk.0.attn_output.weight": SQUARE, "blk.0.ffn_up.weight": NEURONS,
    "blk.0.ffn_down.weight": [6, 4]}
SPARSE_OPT = {
    "token_embd.weight": [4, 3], "position_embd.weight": [4, 6], "output_norm.weight": WIDE,
    "output_norm.bias": WIDE,
    "blk.0.attn_norm.weight": WIDE, "blk.0.attn_norm.bias": WIDE, "blk.0.attn_q.weight": SQUARE,
    "blk.0.attn_q.bias": WIDE, "blk.0.attn_k.weight": SQUARE, "blk.0.attn_v.weight": SQUARE,
    "blk.0.attn_output.weight": SQUARE, "blk.0.ffn_norm.weight": WIDE, "blk.0.ffn_norm.bias": WIDE,
    "blk.0.ffn_up.weight": NEURONS, "blk.0.ffn_up.bias": [6], "blk.0.ffn_down_t.weight": NEURONS,
    "blk.0.ffn_down_t.bias": WIDE, "blk.0.fc1.weight": [4, 3], "blk.0.fc2.weight": [3, 6]}

BERT = {"token_embd.weight": [4, 3], "token_types.weight": [4, 2], "position_embd.weight": [4, 4],
        "blk.0.attn_q.weight": SQUARE, "blk.0.attn_k.weight": SQUARE, "blk.0.attn_v.weight": SQUARE,
        "blk.0.attn_output.weight": SQUARE, "blk.0.ffn_up.weight": NEURONS, "blk.0.ffn_down.weight": [6, 4]}
for norm in ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"):
    BERT.update({f"{norm}.weight": WIDE, f"{norm}.bias": WIDE})
ATTENTION = {
    "token_embd.weight": [4, 3], "output_norm.weight": WIDE, "blk.0.attn_norm.weight": WIDE,
    "blk.0.attn_q.weight": SQUARE, "blk.0.attn_k.weight": SQUARE, "blk.0.attn_v.weight": SQUARE,
    "blk.0.attn_output.weight": SQUARE}
DENSE = {"blk.0.ffn_gate.weight": NEURONS, "blk.0.ffn_up.weight": NEURONS, "blk.0.ffn_down.weight": [6, 4]}
# Norms per head, every head with its own weights.
COMMAND_R = {**ATTENTION, **DENSE, "blk.0.attn_q_norm.weight": [2, 2], "blk.0.attn_k_norm.weight": [2, 2]}
# Four experts with 5 neurons, and a shared one with 3.
QWEN2MOE = {
    **ATTENTION, "blk.0.attn_q.bias": WIDE, "blk.0.attn_k.bias": WIDE, "blk.0.attn_v.bias": WIDE,
    "blk.0.ffn_norm.weight": WIDE, "blk.0.ffn_gate_inp.weight": [4, 4],
    "blk.0.ffn_gate_exps.weight": [4, 5, 4], "blk.0.ffn_up_exps.weight": [4, 5, 4],
    "blk.0.ffn_down_exps.weight": [5, 4, 4],
    "blk.0.ffn_gate_inp_shexp.weight": [4, 1], "blk.0.ffn_gate_shexp.weight": [4, 3],
    "blk.0.ffn_up_shexp.weight": [4, 3], "blk.0.ffn_down_shexp.weight": [3, 4]}
GLM4MOE = {
    **ATTENTION, "blk.0.post_attention_norm.weight": WIDE, "blk.0.ffn_gate_inp.weight": [4, 4],
    "blk.0.exp_probs_b.bias": [4], "blk.0.ffn_gate_exps.weight": [4, 6, 4],
    "blk.0.ffn_up_exps.weight": [4, 6, 4], "blk.0.ffn_down_exps.weight": [6, 4, 4]}
GEMMA3 = {
    **ATTENTION, **DENSE, "blk.0.attn_q_norm.weight": [2], "blk.0.attn_k_norm.weight": [2],
    "blk.0.ffn_norm.weight": WIDE, "blk.0.post_attention_norm.weight": WIDE,
    "blk.0.post_ffw_norm.weight": WIDE}
# A recurrent layer and a full one: one key head, three value heads of 2 numbers, 2 taps.
FULL = {name.replace("blk.0", "blk.1"): shape for name, shape in {
    **ATTENTION, **DENSE, "blk.0.attn_q.weight": [4, 8], "blk.0.attn_q_norm.weight": [2],
    "blk.0.attn_k_norm.weight": [2], "blk.0.post_attention_norm.weight": WIDE}.items()}
RECURRENT = {"blk.0.attn_norm.weight": WIDE, "blk.0.post_attention_norm.weight": WIDE,
             "blk.0.ssm_out.weight": [6, 4], "blk.0.ssm_conv1d.weight": [2, 10], "blk.0.ssm_a": [3],
             "blk.0.ssm_norm.weight": [2]}
QWEN35 = {**FULL, **RECURRENT, **DENSE, "blk.0.attn_qkv.weight": [4, 10], "blk.0.attn_gate.weight": [4, 6],
          "blk.0.ssm_beta.weight": [4, 3], "blk.0.ssm_alpha.weight": [4, 3], "blk.0.ssm_dt.bias": [3]}
EXPERTS = {name: QWEN2MOE[name] for name in QWEN2MOE if "exp" in name or "inp" in name}
QWEN3NEXT = {**{name: shape for name, shape in FULL.items() if "ffn" not in name}, **RECURRENT, **EXPERTS,
             **{name.replace("blk.0", "blk.1"): shape for name, shape in EXPERTS.items()},
             "blk.0.ssm_in.weight": [4, 16], "blk.0.ssm_ba.weight": [4, 6], "blk.0.ssm_dt": [3]}
LFM2 = {**{name.replace("blk.0", "blk.1"): shape for name, shape in {
            **ATTENTION, **DENSE, "blk.0.attn_q_norm.weight": [2], "blk.0.attn_k_norm.weight": [2]}.items()},
        **DENSE, "blk.0.attn_norm.weight": WIDE, "blk.0.ffn_norm.weight": WIDE, "blk.1.ffn_norm.weight": WIDE,
        "blk.0.shortconv.in_proj.weight": [4, 12], "blk.0.shortconv.out_proj.weight": SQUARE,
        "blk.0.shortconv.conv.weight": [2, 4]}
SSM = {"block_count": 2, "ssm.conv_kernel": 2, "ssm.state_size": 2, "ssm.group_count": 1,
       "ssm.time_step_rank": 3, "ssm.inner_size": 6}
# Mamba-2, an FFN and attention, a block each: one group, three heads of 2 columns and 2 rows, 2 taps.
NEMOTRON_H = {**{name.replace("blk.0", "blk.2"): shape for name, shape in ATTENTION.items()},
              "blk.0.attn_norm.weight": WIDE, "blk.0.ssm_in.weight": [4, 19], "blk.0.ssm_out.weight": [6, 4],
              "blk.0.ssm_conv1d.weight": [2, 10], "blk.0.ssm_conv1d.bias": [10], "blk.0.ssm_dt.bias": [3],
              "blk.0.ssm_a": [1, 3], "blk.0.ssm_d": [1, 3], "blk.0.ssm_norm.weight": [6, 1],
              "blk.1.attn_norm.weight": WIDE, "blk.1.ffn_up.weight": NEURONS, "blk.1.ffn_down.weight": [6, 4]}
LLAMA = {**ATTENTION, **DENSE, "blk.0.ffn_norm.weight": WIDE}


def rms(architecture):
    return [(f"{architecture}.attention.layer_norm_rms_epsilon", 1e-5)]


SEEDS = {
    "empty": file(),
    "version2": file([ARCHITECTURE], version=2),
    "scalars": file([ARCHITECTURE, *SCALARS]),
    "arrays": file([array("strings", 8, 3, text("a") + text("") + text("bc")),
                    array("floats", 6, 2, struct.pack("<2f", 1, 2)),
                    array("bools", 7, 2, b"\0\1"), array("ints", 5, 2, struct.pack("<2i", 1, -1)),
                    array("bytes", 0, 4, b"abcd"), array("longs", 10, 1, struct.pack("<Q", 2**63))]),
    "nested": file([array("nested", 9, 2, struct.pack("<IQ", 0, 1) + b"x"
                          + struct.pack("<IQ", 8, 1) + text("y"))]),
    "tensors": file([ARCHITECTURE], [tensor("a", [4], 0, 0), tensor("b", [32, 2], 2, 32),
                                      tensor("c", [1, 2, 1, 2], 1, 96)], b"\1" * 104),
    "alignment": file([key("general.alignment", 4, struct.pack("<I", 64))],
                      [tensor("a", [2], 0, 0), tensor("b", [32], 8, 64)], b"\2" * 98, alignment=64),
    "split": file([key("split.no", 2, struct.pack("<H", 0)), key("split.count", 2, struct.pack("<H", 2)),
                   key("split.tensors.count", 5, struct.pack("<i", 0))]),
    "k_quants": file([], [tensor("a", [256], 12, 0), tensor("b", [256], 14, 160),
                          tensor("c", [256], 23, 384)], b"\3" * 520),
    "unknown_type": file([], [tensor("a", [32], 39, 0)], b"\0" * 32),
    "safetensors": struct.pack("<Q", 2) + b"{}",
    "powerinfer": b"PWRI" + file()[4:],
    "powerinfer_llama": model("llama", SPARSE_LLAMA, b"PWRI", [
        ("powerinfer.sparse_threshold", -0.5), ("llama.attention.layer_norm_rms_epsilon", 1e-5)]),
    "powerinfer_opt": model("opt", SPARSE_OPT, b"PWRI"),
    "falcon": model("falcon", FALCON, floats=[("falcon.attention.layer_norm_epsilon", 1e-5)]),
    "bert": model("bert", BERT, floats=[("bert.attention.layer_norm_epsilon", 1e-12)],
                  more={"pooling_type": 2}, keys_more=[key("bert.attention.causal", 7, b"\0")]),
    "command_r_plus": model("command-r", COMMAND_R, floats=[("command-r.attention.layer_norm_epsilon", 1e-5),
                                                            ("command-r.logit_scale", 0.25)]),
    "qwen2moe": model("qwen2moe", QWEN2MOE, floats=rms("qwen2moe"), more={
        "expert_count": 4, "expert_used_count": 2, "expert_shared_feed_forward_length": 3}),
    "glm4moe": model("glm4moe", GLM4MOE, floats=rms("glm4moe"), more={
        "expert_count": 4, "expert_used_count": 1, "expert_group_count": 2, "expert_group_used_count": 1,
        "expert_gating_func": 2}),
    "gemma3": model("gemma3", GEMMA3, floats=rms("gemma3"), more={"attention.sliding_window": 2},
                    keys_more=[array("gemma3.attention.sliding_window_pattern", 7, 1, b"\1")]),
    "mistral3": model("mistral3", LLAMA, floats=[
                          *rms("mistral3"), ("mistral3.attention.temperature_scale", 0.1),
                          ("mistral3.rope.scaling.factor", 4.0)],
                      more={"rope.scaling.original_context_length": 2},
                      keys_more=[key("mistral3.rope.scaling.type", 8, text("yarn"))]),
    "qwen35": model("qwen35", QWEN35, floats=rms("qwen35"), more=SSM, values={"blk.0.ssm_a": -0.5},
                    keys_more=[
        array("qwen35.attention.recurrent_layers", 7, 2, b"\1\0"),
        array("qwen35.rope.dimension_sections", 5, 3, struct.pack("<3i", 1, 0, 0))]),
    "qwen3next": model("qwen3next", QWEN3NEXT, floats=rms("qwen3next"), values={"blk.0.ssm_a": -0.5}, more={
        **SSM, "full_attention_interval": 2, "expert_count": 4, "expert_feed_forward_length": 5},
        keys_more=[array("qwen3next.attention.head_count_kv", 4, 2, struct.pack("<2I", 0, 2)),
                   array("qwen3next.expert_used_count", 4, 2, struct.pack("<2I", 2, 2))]),
    "nemotron_h": model("nemotron_h", NEMOTRON_H, floats=rms("nemotron_h"), values={"blk.0.ssm_a": -0.5},
                        more={
            **SSM, "block_count": 3, "feed_forward_length": None}, keys_more=[
        array("nemotron_h.attention.head_count_kv", 5, 3, struct.pack("<3i", 0, 0, 2)),
        array("nemotron_h.feed_forward_length", 5, 3, struct.pack("<3i", 0, 6, 0))]),
    "lfm2": model("lfm2", LFM2, floats=rms("lfm2"), more={"block_count": 2, "shortconv.l_cache": 2},
                  keys_more=[array("lfm2.attention.head_count_kv", 4, 2, struct.pack("<2I", 0, 2))]),
    "big_endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in SEEDS.items():
        (FOLDER / name).write_bytes(data)
    print(f"{len(SEEDS)} seeds in {FOLDER}")


main()
