"""Code that the scripts for tiny random models share: random weights, golden results, and the writing of GGUF
files.

A script has a table of Tiny and calls make_all. Every weight is exact in the type that the file has for it, and no
router of a mixture of experts is near a tie, so that rounding cannot choose another expert.
"""
import contextlib
import dataclasses
import itertools
import pathlib
import sys
from typing import Any, Callable

import gguf
import numpy as np
import torch
import transformers

from checkpoints import CHECKPOINTS, write_checkpoint
from half_cache import cache_of_halves
from make_models import CONTEXT, N_VOCAB, TOKENS, interleave

# The minimum difference between the scores of the last expert chosen and the first one left out, for every token and
# layer, in standard deviations of the router's scores. Keys and values in half precision change scores by about 0.001.
ROUTER_MARGIN = 0.01
# The margin of an indexer's scores. Golden choices are made with keys of half precision, as engines make them.
INDEXER_MARGIN = 0.001
MXFP4 = gguf.GGMLQuantizationType.MXFP4

# transformers' names of a layer's parts, and GGUF's, as most of these models have them.
ATTENTION = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output"}
OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
FFN_NORM = {"post_attention_layernorm": "ffn_norm"}
FFN = {"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
QK_NORMS = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
EXPERTS = {"mlp.gate": "ffn_gate_inp", "mlp.experts.gate_up_proj": "ffn_gate_up_exps",
           "mlp.experts.down_proj": "ffn_down_exps"}
LLAMA = {**OUTER, **ATTENTION, **FFN_NORM, **FFN}


@dataclasses.dataclass
class Tiny:
    """One model: how transformers builds it, and what its file says."""
    arch: str  # general.architecture
    config: Any  # transformers' configuration
    keys: dict[str, Any]  # of the file, without the prefix of the architecture
    names: dict[str, str]  # transformers' names (layers' ones without the layer) to GGUF's; "" leaves one out
    # (GGUF's name, data) to the list of those that the file has
    change: Callable[[str, np.ndarray], list[tuple[str, np.ndarray]]] = lambda name, data: [(name, data)]
    norm_base: float = 1.0  # about which norms' weights are drawn; 0 where the model adds 1
    layers: tuple[str, ...] = ("layers", "h")  # what the list of layers is called
    # The scores by which a layer's experts are chosen, given its router and the router's input; None: no experts
    scores: Callable[[torch.nn.Module, torch.Tensor], torch.Tensor] | None = None
    router: str = "mlp.gate"
    n_used: int = 0
    groups: Callable[[torch.Tensor], torch.Tensor] | None = None  # scores of groups of experts
    n_groups_used: int = 0
    top_k: int = 0  # positions that an indexer chooses; 0: there is none, or it chooses all
    auto: Any = transformers.AutoModelForCausalLM
    spreads: dict[str, float] = dataclasses.field(default_factory=dict)  # of weights by a part of their names
    extra: Callable[[], dict[str, np.ndarray]] = dict  # further tensors of the file
    vocabulary: str = "llama"
    whole_keys: dict[str, Any] = dataclasses.field(default_factory=dict)  # keys that begin with no architecture
    converts: bool = True  # hearth-profiler convert knows the model's class
    hidden: bool = False  # golden are the last layer's outputs of all tokens, not logits
    # More golden files: their suffixes to what they hold
    more_golden: Callable[[torch.nn.Module], dict[str, torch.Tensor]] = lambda model: {}
    build: Callable[[], torch.nn.Module] | None = None  # instead of auto
    seed: str = ""  # what random weights are seeded by, the model's name unless said
    mxfp4: tuple[str, ...] = ()  # parts of the names of the file's tensors that are MXFP4
    # Changes a checkpoint's tensors and config.json, of models that transformers has under another name
    published: Callable[[dict, dict], dict] = lambda tensors, config: tensors
    # Writes further files of a checkpoint into its folder
    files: Callable[[pathlib.Path], None] = lambda folder: None
    # Rounds the model's weights to what its file can hold, after they were drawn
    settle: Callable[[torch.nn.Module], None] = lambda model: None
    # Golden logits of the layer that predicts later tokens; None: there is no such layer, or no golden
    nextn: Callable[[torch.nn.Module], torch.Tensor] | None = None
    # Raises an error if the chosen weights are not fit for a golden
    check: Callable[[torch.nn.Module], None] = lambda model: None

    def make(self):
        model = self.build() if self.build else self.auto.from_config(self.config, attn_implementation="eager")
        return model.float().eval()


def sizes(config, **more):
    """Keys that converters write for nearly every architecture, from transformers' configuration."""
    keys = {"block_count": config.num_hidden_layers, "context_length": config.max_position_embeddings,
            "embedding_length": config.hidden_size, "attention.head_count": config.num_attention_heads}
    for key, field in (("feed_forward_length", "intermediate_size"), ("attention.head_count_kv", "num_key_value_heads"),
                       ("attention.layer_norm_rms_epsilon", "rms_norm_eps"), ("attention.key_length", "head_dim"),
                       ("attention.value_length", "head_dim"), ("expert_used_count", "num_experts_per_tok")):
        if (value := getattr(config, field, None)) is not None:
            keys[key] = value
    if (rope := getattr(config, "rope_parameters", None)) is not None and "rope_theta" in rope:
        keys["rope.freq_base"] = float(rope["rope_theta"])
        if rope["rope_type"] in ("linear", "yarn"):
            keys["rope.scaling.type"] = rope["rope_type"]
            keys["rope.scaling.factor"] = float(rope["factor"])
        if rope["rope_type"] == "yarn":
            keys["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
            for key, fields in (("attn_factor", ("attention_factor", "attn_factor")), ("beta_fast", ("beta_fast",)),
                                ("beta_slow", ("beta_slow",))):
                for field in fields:
                    if rope.get(field) is not None:
                        keys[f"rope.scaling.yarn_{key}"] = float(rope[field])
    return {**keys, **more}


def of_rope(theta=10000.0, **more):
    return {"rope_type": "default", "rope_theta": theta, **more}


def permuted(n_heads, n_kv_heads):
    """A change for files of llama's family, where q and k have adjacent pairs."""
    def change(name, data):
        if ".attn_q." in name or ".attn_k." in name:
            data = interleave(data, n_heads if ".attn_q." in name else n_kv_heads)
        return split_experts(name, data)
    return change


def split_experts(name, data):
    """Fused gates and ups of experts, or of one FFN (shared), become two tensors."""
    for fused in ("ffn_gate_up_exps", "ffn_gate_up_shexp"):
        if fused in name:
            half = data.shape[-2] // 2
            return [(name.replace("gate_up", "gate"), data[..., :half, :]),
                    (name.replace("gate_up", "up"), data[..., half:, :])]
    return [(name, data)]


def fused_qkv():
    """A change that puts a layer's q, k and v one under the other, as attn_qkv."""
    order = ("attn_q.", "attn_k.", "attn_v.")
    parts = {}

    def change(name, data):
        part = next((part for part in order if part in name), None)
        if part is None:
            return [(name, data)]
        fused = name.replace(part, "attn_qkv.")
        found = parts.setdefault(fused, {})
        found[part] = data
        return [(fused, np.concatenate([found[part] for part in order]))] if len(found) == len(order) else []
    return change


class TextOnly(dict):
    """Names of a model whose vision tower is not in the file."""
    def __missing__(self, name):
        if not name.startswith("model.visual."):
            raise KeyError(name)
        return ""


SECTIONS = [2, 1, 1]  # of the pairs of dimensions: time, height, width
VISION = dict(depth=2, hidden_size=16, intermediate_size=16, num_heads=2, patch_size=4, spatial_merge_size=2,
              temporal_patch_size=2, num_position_embeddings=16, deepstack_visual_indexes=[0])


def of_vision(arch, kind, config, keys, names, **more):
    """A Qwen3-VL model, whose file has its language model. Interleaved M-RoPE: transformers gives each pair of
    dimensions the position along one of three axes; for tokens of text they are equal."""
    keys |= {"rope.dimension_sections": [*SECTIONS, 0], "n_deepstack_layers": 1}
    names = TextOnly({name.replace("model.", "model.language_model."): to for name, to in names.items()})

    def build():
        config._attn_implementation = "eager"
        return kind(config)
    return Tiny(arch, config, keys, names, build=build, **more)


def plain_scores(router, x):
    """Chosen by logits (or by what grows with them)."""
    return x @ router.weight.T


def randomise(tiny, model, rng):
    """Weights that are exact in float16, whatever type the file has for them."""
    with torch.no_grad():
        for name, weight in model.state_dict().items():
            owner = type(model.get_submodule(name.rpartition(".")[0])).__name__
            norm = "Norm" in owner
            base = tiny.norm_base if norm and name.endswith("weight") else 0.0
            spread = 0.3 if norm or weight.ndim <= 1 else 1.5 / weight.shape[-1] ** 0.5
            spread = next((value for part, value in tiny.spreads.items() if part in name), spread)
            values = torch.from_numpy(np.asarray(base + spread * rng.standard_normal(tuple(weight.shape))))
            weight.copy_(values.half().float())
        if model.config.tie_word_embeddings and hasattr(model, "lm_head"):
            model.lm_head.weight.copy_(model.get_input_embeddings().weight)
        tiny.settle(model)


def gap(scores, n):
    """The smallest distance between the n-th and the next score of a row, in the scores' standard deviations."""
    ordered = scores.sort(-1, descending=True).values
    distance = (ordered[:, n - 1] - ordered[:, n]).min() / scores[scores.isfinite()].std()
    return distance.item()


@contextlib.contextmanager
def watched_choices(top_k, gaps):
    """Appends the smallest gap of each choice of top_k positions among those that a token sees."""
    original = torch.Tensor.topk

    def topk(self, k, *arguments, **named):
        if k == top_k and self.ndim == 3 and self.shape[1] == self.shape[2]:
            for seen in range(top_k + 1, self.shape[1] + 1):
                gaps.append(gap(self[0, seen - 1:seen, :seen], top_k) * ROUTER_MARGIN / INDEXER_MARGIN)
        return original(self, k, *arguments, **named)

    torch.Tensor.topk = topk
    try:
        yield
    finally:
        torch.Tensor.topk = original


def run(tiny, model):
    """The golden rows, and the smallest gap of any router."""
    gaps, handles = [], []

    def watch(router, args):
        x = args[0].reshape(-1, args[0].shape[-1])
        scores = tiny.scores(router, x)
        if tiny.groups is not None:
            groups = tiny.groups(scores)
            gaps.append(gap(groups, tiny.n_groups_used))
            chosen = torch.zeros_like(groups).scatter(1, groups.topk(tiny.n_groups_used).indices, 1) > 0
            scores = scores.masked_fill(~chosen.repeat_interleave(scores.shape[1] // groups.shape[1], 1), -np.inf)
        gaps.append(gap(scores, tiny.n_used))

    if tiny.scores is not None:
        handles = [module.register_forward_pre_hook(watch) for name, module in model.named_modules()
                   if name.endswith("." + tiny.router)]
        assert handles, "no routers"
    with torch.no_grad(), watched_choices(tiny.top_k, gaps):
        output = model(torch.tensor([TOKENS]))
        golden = output.last_hidden_state[0] if hasattr(output, "last_hidden_state") else output.logits[0]
    for handle in handles:
        handle.remove()
    return golden, min(gaps, default=None)


def tensors_of(tiny, model):
    """(GGUF's name, data) of all tensors of the file."""
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        stem, _, suffix = name.rpartition(".")
        if suffix not in ("weight", "bias"):  # a parameter without a module of its own
            stem, suffix = name, "weight"
        parts = stem.split(".")
        at = next((i + 1 for i, part in enumerate(parts[:-1]) if part in tiny.layers and parts[i + 1].isdigit()), None)
        prefix = "" if at is None else f"blk.{parts[at]}."
        mapped = tiny.names[stem if at is None else ".".join(parts[at + 1:])]
        if mapped == "":
            continue
        if "." in mapped:  # says the suffix itself
            mapped, _, suffix = mapped.partition(".")
        yield from tiny.change(f"{prefix}{mapped}.{suffix}", weight.numpy())
    yield from tiny.extra().items()


def as_mxfp4(data):
    """The bytes of a tensor in MXFP4, and what they stand for."""
    raw = gguf.quants.quantize(np.ascontiguousarray(data, dtype=np.float32), MXFP4)
    return raw, gguf.quants.dequantize(raw, MXFP4)


def stored(tiny, name, data):
    """As converters choose types: float32 for vectors, norms, routers and whatever is not called weight."""
    if name.endswith(".weight") and any(part in name for part in tiny.mxfp4):
        raw, values = as_mxfp4(data)
        assert np.array_equal(values, data), name
        return raw, MXFP4
    single = ("ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "position_embd.weight", "token_types.weight",
              "ssm_conv1d.weight", "ssm_conv1d_q.weight", "ssm_conv1d_k.weight", "ssm_conv1d_v.weight",
              "shortconv.conv.weight")
    if data.ndim <= 1 or not name.endswith(".weight") or name.endswith(("_norm.weight",) + single):
        return np.ascontiguousarray(data, dtype=np.float32), gguf.GGMLQuantizationType.F32
    half = np.ascontiguousarray(data).astype(np.float16)
    assert np.array_equal(half.astype(np.float32), data), name
    return half, gguf.GGMLQuantizationType.F16


def add_keys(writer, prefix, keys):
    for key, value in keys.items():
        name = prefix + key
        first = value[0] if isinstance(value, list) else value
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(first, bool):
            writer.add_bool(name, value)
        elif isinstance(first, int):
            writer.add_uint32(name, value)
        elif isinstance(first, float):
            writer.add_float32(name, value)
        else:
            writer.add_string(name, value)


def add_vocabulary(writer, kind):
    if kind == "bert":
        letters = [chr(c) for c in range(33, 127)]
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + ["\u2581" + c for c in letters] + letters
        tokens += [f"[unused{i}]" for i in range(N_VOCAB - len(tokens))]
        writer.add_tokenizer_model("bert")
        writer.add_tokenizer_pre("default")
        writer.add_token_list(tokens)
        writer.add_token_types([3 if token.startswith("[") and len(token) > 2 else 1 for token in tokens])
        writer.add_token_type_count(2)
        writer.add_unk_token_id(1)
        writer.add_uint32("tokenizer.ggml.cls_token_id", 2)
        writer.add_sep_token_id(3)
        writer.add_pad_token_id(0)
        writer.add_mask_token_id(4)
        return
    if kind == "unigram":
        letters = [chr(c) for c in range(33, 127)]
        tokens = ["<s>", "<pad>", "</s>", "<unk>", "\u2581"] + ["\u2581" + c for c in letters] + letters
        tokens += [f"[PAD{i}]" for i in range(N_VOCAB - len(tokens))]
        writer.add_tokenizer_model("t5")
        writer.add_tokenizer_pre("default")
        writer.add_token_list(tokens)
        writer.add_token_scores([-1.0] * N_VOCAB)
        writer.add_token_types([3, 3, 3, 2] + [1] * (N_VOCAB - 4))
        writer.add_add_space_prefix(True)
        writer.add_token_type_count(1)
        for role, token in (("bos", 0), ("eos", 2), ("unknown", 3), ("seperator", 2), ("padding", 1), ("cls", 0)):
            writer.add_uint32(f"tokenizer.ggml.{role}_token_id", token)
        writer.add_add_bos_token(True)
        writer.add_add_eos_token(True)
        return
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])
    writer.add_token_scores([0.0] * N_VOCAB)
    writer.add_token_types([2, 3, 3] + [6] * 256)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def write_gguf(path, tiny, tensors):
    writer = gguf.GGUFWriter(str(path), tiny.arch)
    writer.add_name(path.stem)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    add_keys(writer, f"{tiny.arch}.", tiny.keys)
    add_keys(writer, "", tiny.whole_keys)
    add_vocabulary(writer, tiny.vocabulary)
    for name, data in tensors:
        data, kind = stored(tiny, name, data)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


CHAIN_STARTS, CHAIN_LENGTH = (11, 23, 43), 3


def nextn_golden(model, block, embedding_norm, hidden_norm, join):
    """Golden rows of the layer that predicts later tokens. block: a model of that layer alone, whose final norm and
    output are those of the layer. The token at position p enters with the model's normed hidden state at p - 1, which is
    zero for p = 0. Rows: every 4th position, then for each of CHAIN_STARTS the next CHAIN_LENGTH positions, each with
    the most likely token of the row before and the layer's own normed hidden state."""
    tokens = torch.tensor(TOKENS)

    def through(tokens, hidden):
        x = torch.cat([embedding_norm(model.get_input_embeddings()(tokens)), hidden_norm(hidden)], -1) @ join.T
        return block.model(inputs_embeds=x[None], use_cache=False).last_hidden_state[0]

    with torch.no_grad():
        hidden = model.model(tokens[None]).last_hidden_state[0]
        before = torch.cat([torch.zeros_like(hidden[:1]), hidden[:-1]])
        rows = [block.lm_head(through(tokens, before))[::4]]
        for start in CHAIN_STARTS:
            text, states = tokens[:start + 1], before[:start + 1]
            out = through(text, states)
            for _ in range(CHAIN_LENGTH):
                text = torch.cat([text, block.lm_head(out[-1:]).argmax(-1)])
                states = torch.cat([states, out[-1:]])
                out = through(text, states)
                rows.append(block.lm_head(out[-1:]))
    return torch.cat(rows)


def heads_golden(model, heads):
    """Golden rows of layers that are heads: each guesses one token further than the one before. heads: for each, what
    nextn_golden() takes after the model. The token at position p enters head k with the model's hidden state at p - 1 - k
    before the final norm, which is zero before the text. Rows: those of head 0 at every 4th position, then for each of
    CHAIN_STARTS those of the further heads, each with the most likely token of the row before."""
    tokens, found = torch.tensor(TOKENS), []

    def through(k, tokens):
        block, embedding_norm, hidden_norm, join = heads[k]
        hidden = torch.cat([torch.zeros(k + 1, found[0].shape[1]), found[0]])[:len(tokens)]
        x = torch.cat([embedding_norm(model.get_input_embeddings()(tokens)), hidden_norm(hidden)], -1) @ join.T
        return block.lm_head(block.model(inputs_embeds=x[None], use_cache=False).last_hidden_state[0])

    with torch.no_grad():
        handle = model.model.norm.register_forward_pre_hook(lambda norm, args: found.append(args[0][0]))
        model.model(tokens[None])
        handle.remove()
        rows = [through(0, tokens)[::4]]
        for start in CHAIN_STARTS:
            text = tokens[:start + 1]
            row = through(0, text)[-1:]
            for k in range(1, CHAIN_LENGTH + 1):
                text = torch.cat([text, row.argmax(-1)])
                row = through(k, text)[-1:]
                rows.append(row)
    return torch.cat(rows)


def rms_norm(weight, eps=1e-6):
    """A function that norms rows with these weights, as files have them."""
    return lambda x: x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * weight


def make_all(models):
    """Writes every model of a table into the folder that the command line names; further words choose some."""
    torch.set_num_threads(1)
    out = pathlib.Path(sys.argv[1])
    for name, make in models.items():
        chosen = [word for word in sys.argv[2:] if not word.startswith("--")]
        if chosen and name not in chosen:
            continue
        tiny = make()
        model = tiny.make()
        for attempt in itertools.count():
            rng = np.random.default_rng([attempt, *(tiny.seed or name).encode()])
            randomise(tiny, model, rng)
            with cache_of_halves(model) if tiny.top_k else contextlib.nullcontext():
                _, smallest = run(tiny, model)
            if smallest is None or smallest > ROUTER_MARGIN:
                break
        tiny.check(model)
        with cache_of_halves(model):
            golden, _ = run(tiny, model)
            with torch.no_grad():
                of_nextn = tiny.nextn(model) if tiny.nextn else None
                more = tiny.more_golden(model)
        write_gguf(out / f"{name}.gguf", tiny, tensors_of(tiny, model))
        if CHECKPOINTS in sys.argv and tiny.converts:
            write_checkpoint(out / name, model, tiny.vocabulary, tiny.published)
            tiny.files(out / name)
        if of_nextn is not None:
            of_nextn.numpy().astype("<f4").tofile(out / f"{name}.nextn.logits")
        golden = more.get("scores", golden)
        for suffix, values in more.items():
            values.numpy().astype("<f4").tofile(out / f"{name}.{suffix}")
        rows = golden if tiny.hidden else golden[::4]
        if "scores" not in more:
            rows.numpy().astype("<f4").tofile(out / f"{name}.{'hidden' if tiny.hidden else 'logits'}")
        print(name, tuple(rows.shape), "spread", round(golden.std().item(), 3), "router gap",
              smallest if smallest is None else round(smallest, 4), "attempt", attempt,
              f"{(out / name).with_suffix('.gguf').stat().st_size // 1000} kB")
