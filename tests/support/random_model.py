"""Writes a tiny llama with random weights and the tokenizer of another GGUF file. It generates real tokens at
hundreds per second, without any relation to the prompt.
"""
import gguf
import numpy

D_MODEL, D_FF, N_HEADS, CONTEXT = 32, 64, 2, 4096


def write_random_model(path, tokenizer_of, seed=1):
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("random")
    writer.add_block_count(1)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(D_MODEL)
    writer.add_feed_forward_length(D_FF)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(N_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    n_vocab = 0
    for field in gguf.GGUFReader(str(tokenizer_of)).fields.values():
        if not field.name.startswith("tokenizer.") or field.name == "tokenizer.chat_template":
            continue
        kinds = field.types
        writer.add_key_value(field.name, field.contents(), kinds[0],
                             sub_type=kinds[-1] if len(kinds) > 1 else None)
        if field.name == "tokenizer.ggml.tokens":
            n_vocab = len(field.contents())
    rng = numpy.random.default_rng(seed)
    shapes = {"token_embd.weight": (n_vocab, D_MODEL), "output_norm.weight": (D_MODEL,),
              "blk.0.attn_norm.weight": (D_MODEL,), "blk.0.ffn_norm.weight": (D_MODEL,),
              "blk.0.ffn_gate.weight": (D_FF, D_MODEL), "blk.0.ffn_up.weight": (D_FF, D_MODEL),
              "blk.0.ffn_down.weight": (D_MODEL, D_FF)}
    shapes |= {f"blk.0.attn_{part}.weight": (D_MODEL, D_MODEL) for part in ("q", "k", "v", "output")}
    for name, shape in shapes.items():
        if len(shape) == 1:
            writer.add_tensor(name, numpy.ones(shape, dtype=numpy.float32))
        else:
            writer.add_tensor(name, (rng.standard_normal(shape) / shape[1] ** 0.5).astype(numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
