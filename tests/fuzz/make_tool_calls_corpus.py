"""Writes the seed corpus of fuzz_tool_calls: an answer with calls in each syntax, after a byte with the
syntax's number there.

  python tests/fuzz/make_tool_calls_corpus.py
"""

import pathlib

OBJECT = '{"name": "f", "arguments": {"a": "x\\n\\"", "b": [1, -2.5e3, {"c": null}]}}'
ARGUMENTS = '{"a": "x", "b": 1}'
CODER = ("<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=b>\n2\n</parameter>\n"
         "</function>\n</tool_call>")
GLM = "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>"
MINIMAX = ('<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">x</parameter>\n</invoke>\n'
           '</minimax:tool_call>')
DEEPSEEK = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n" + ARGUMENTS + "\n```<｜tool▁call▁end｜>"
KIMI = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>" + ARGUMENTS + "<|tool_call_end|>"

# In the order of kTemplates in fuzz_tool_calls.cpp.
ANSWERS = [
    f"Text.\n<tool_call>\n{OBJECT}\n</tool_call>\n<tool_call>\n{OBJECT}\n</tool_call> more <tool_c",
    f"<think>\nHm <tool_call>.\n</think>\n\n<tool_call>\n{OBJECT}\n</tool_call>",
    CODER + "\n" + CODER,
    f"<think>a</think>Yes.\n{GLM}\n{GLM}",
    MINIMAX,
    OBJECT.replace("arguments", "parameters"),
    "[f(a='x', b=2), f(a=[1, {'k': None}], b=(True,))]",
    "Now <|tool_call_start|>[f(a=\"x\\n\")]<|tool_call_end|>",
    f'[TOOL_CALLS] [{OBJECT[:-1]}, "id": "abcdefgh1"}}, {OBJECT}]',
    f"<tool_calls>\n{OBJECT}\n{OBJECT}\n</tool_calls>",
    f"Go <function=f>{ARGUMENTS}</function><function=f>{{}}</function>",
    f"all\nText.>>>f\n{ARGUMENTS}>>>f\n{{}}",
    f"<｜tool▁calls▁begin｜>{DEEPSEEK}\n{DEEPSEEK}<｜tool▁calls▁end｜>",
    '<|START_THINKING|>x<|END_THINKING|><|START_ACTION|>[\n'
    '    {"tool_call_id": "0", "tool_name": "f", "parameters": {}}\n]<|END_ACTION|>',
    f"<|tool_calls_section_begin|>{KIMI}{KIMI}<|tool_calls_section_end|>",
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
    "<|constrain|>json<|message|>" + ARGUMENTS
    + "<|call|><|start|>assistant<|channel|>final<|message|>Done.<|return|>",
    '<calls>[{"id": "a", "type": "function", "function": {"arguments": '
    '"{\\"a\\": 1}", "name": "f"}}]</calls>',
    f"Go.[TOOL_CALLS]f[CALL_ID]abcdefgh1[ARGS]{ARGUMENTS}[TOOL_CALLS]f[CALL_ID]abcdefgh2[ARGS]{{}}",
    'Go.<|tool_call>call:f{a:<|"|>x, }"<|"|>,b:[1,{c:null}],d:"q"}<tool_call|><|tool_call>call:f{}<tool_c',
]


def main():
    folder = pathlib.Path(__file__).resolve().parent / "corpus/tool_calls"
    folder.mkdir(parents=True, exist_ok=True)
    for number, answer in enumerate(ANSWERS):
        (folder / f"syntax_{number:02}").write_bytes(bytes([number]) + answer.encode())
        (folder / f"thinking_{number:02}").write_bytes(
            bytes([number | 64]) + b"so.</think>" + answer.encode())


if __name__ == "__main__":
    main()
