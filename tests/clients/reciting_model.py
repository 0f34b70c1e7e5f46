"""Writes a model that recites given answers, so that tests see how an agent handles calls without depending
on what a small model writes.

The model has the tokenizer of another model. Each answer is one token of its own, because a grammar could
force other tokens between several. The chat template begins answer 0 if the request has no tools, and
otherwise the answer after as many as the conversation has results of tools. After the last answer, the last
one is repeated.
"""
import functools
import json

import gguf
import numpy as np

CERTAIN = 100.0  # scales logits so far that sampling with any temperature takes the largest
WIDTH = 32  # of queries, keys and values, which are all zero
TEMPLATE = """\
{%- if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}
{%- set past = namespace(results=0) %}
{%- for m in messages %}
{%- if m.role == 'tool' %}{% set past.results = past.results + 1 %}{% endif %}<|im_start|>{{ m.role }}
{{ m.content or '' }}{% for call in m.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
<|answer-{{ ([past.results + 1, LAST] | min) if tools else 0 }}|>{% endif %}"""


def call(name, **arguments):
    """The text of a call in the template's form."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


@functools.cache
def vocabulary(path):
    """The tokens, the merges, the types of the tokens, and the name of the pattern that splits texts."""
    fields = gguf.GGUFReader(path).fields
    names = ["tokens", "merges", "token_type", "pre"]
    return tuple(fields[f"tokenizer.ggml.{name}"].contents() for name in names)


def write(path, tokenizer, without_tools, *turns, context=65536):
    """tokenizer: a GGUF file with byte-level BPE and the tokens <|im_start|> and <|im_end|>. All texts are
    ASCII."""
    tokens, merges, types, pattern = vocabulary(tokenizer)
    tokens, types = list(tokens), list(types)
    end, begin, first = tokens.index("<|im_end|>"), tokens.index("<|im_start|>"), len(tokens)
    after = {}  # token -> the next one

    def add(token, kind):
        tokens.append(token)
        types.append(int(kind))
        return len(tokens) - 1

    for number, text in enumerate([without_tools, *turns]):
        mark = add(f"<|answer-{number}|>", gguf.TokenType.CONTROL)
        # byte-level BPE writes a space as Ġ, a line feed as Ċ
        after[mark] = add(text.replace(" ", "Ġ").replace("\n", "Ċ"), gguf.TokenType.NORMAL)
        after[after[mark]] = end
    width = -(-len(after) // 32) * 32
    embeddings = np.zeros((len(tokens), width), np.float16)
    outputs = np.zeros((len(tokens), width), np.float16)
    for index, (token, following) in enumerate(after.items()):
        embeddings[token, index] = 1
        outputs[following, index] = 1

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(WIDTH)
    writer.add_value_length(WIDTH)
    writer.add_rope_dimension_count(WIDTH)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pattern)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(begin)
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE.replace("LAST", str(len(turns))))
    writer.add_tensor("token_embd.weight", embeddings)
    writer.add_tensor("output.weight", outputs)
    writer.add_tensor("output_norm.weight", np.full(width, CERTAIN, np.float32))
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", np.ones(width, np.float32))
    for name in ("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"):
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros((WIDTH, width), np.float32))
    for name in ("attn_output", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros((width, WIDTH), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
