"""A small model that chats and fills in middles, for tests that send thousands of requests: tests/data/relu's
with other keys.

Its answers mean nothing. 5 MB, 512 tokens of context, 2,048 in the vocabulary.
"""
import functools
import pathlib
import tempfile

import gguf_edit
import hearthd

SOURCE = hearthd.ROOT / "tests" / "data" / "relu" / "relu-5m-q8_0.gguf"
TEMPLATE = ("{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
            "{% for c in m.tool_calls or [] %}<tool_call>{\"name\": \"{{ c.function.name }}\", "
            "\"arguments\": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}\n"
            "{% endfor %}{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")
FIM = {"tokenizer.ggml.fim_pre_token_id": 2045, "tokenizer.ggml.fim_suf_token_id": 2046,
       "tokenizer.ggml.fim_mid_token_id": 2047}
FOLDER = tempfile.TemporaryDirectory(prefix="hearth-small-model-")


@functools.cache
def path():
    """Written once per test run."""
    return gguf_edit.copy_with(SOURCE, pathlib.Path(FOLDER.name) / "small.gguf",
                               {"tokenizer.chat_template": TEMPLATE, **FIM})
