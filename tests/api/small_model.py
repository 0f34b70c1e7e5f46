"""A small model that chats and fills in middles, for tests that send thousands of requests: tests/data/relu's with other keys.

Its answers mean nothing. 5 MB, 512 tokens of context, 2,048 in the vocabulary.
"""
import functools
import pathlib
import tempfile

import gguf

import hearthd

SOURCE = hearthd.ROOT / "tests" / "data" / "relu" / "relu-5m-q8_0.gguf"
TEMPLATE = ("{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
            "{% for c in m.tool_calls or [] %}<tool_call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
            "{{ c.function.arguments | tojson }}}</tool_call>{% endfor %}\n{% endfor %}"
            "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")
FIM = {"tokenizer.ggml.fim_pre_token_id": 2045, "tokenizer.ggml.fim_suf_token_id": 2046,
       "tokenizer.ggml.fim_mid_token_id": 2047}
FOLDER = tempfile.TemporaryDirectory(prefix="hearth-small-model-")


def copy_keys(reader, writer):
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)


@functools.cache
def path():
    """Written once for a run of the tests."""
    reader = gguf.GGUFReader(SOURCE)
    target = pathlib.Path(FOLDER.name) / "small.gguf"
    writer = gguf.GGUFWriter(target, arch=reader.get_field("general.architecture").contents())
    copy_keys(reader, writer)
    writer.add_chat_template(TEMPLATE)
    for key, token in FIM.items():
        writer.add_uint32(key, token)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
