"""Conversations and tools with which the chat templates of tests/data/templates are rendered.

test_jinja_oracle.py (which compares with Python's jinja2) and make_jinja_golden.py (which writes the expected
texts for the C++ tests) use them.
"""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Tells the weather of a city.\nUse it for \"now\" only.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "A city, such as Zürich & <Bern>"},
                    "days": {"type": "integer", "default": 3},
                    "units": {"type": "string", "enum": ["°C", "°F"]},
                    "tags": {"type": "array", "items": {"type": "number"}},
                    "extra": {"type": "object", "additionalProperties": {"type": "boolean"}},
                    "any": {"type": ["string", "integer"]},
                },
                "required": ["city"],
            },
            "return": {"type": "string"},
        },
    },
    {
        "type": "function",
        "function": {
            "name": "no_args",
            "description": "Does nothing.",
            "parameters": {"type": "object", "properties": {}, "required": []},
        },
    },
]


def call(name, arguments, identifier):
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


U1 = {"role": "user", "content": "What is the capital of France?"}
A1 = {"role": "assistant", "content": "  Paris.\n"}
U2 = {"role": "user", "content": "And of Italy?\r\n\r\nPlease."}
A2 = {"role": "assistant", "content": "<think>\nItaly... Rome.\n</think>\n\nRome."}
SYSTEM = {"role": "system", "content": "You answer in one word."}
CALL = {"role": "assistant", "content": None,
        "tool_calls": [call("get_weather", {"city": "Zürich", "days": 2}, "abcde1234")]}
RESULT = {"role": "tool", "tool_call_id": "abcde1234", "name": "get_weather",
          "content": "{\"sky\": \"grey\"}"}

MESSAGES = {
    "user": [U1],
    "system_user": [SYSTEM, U1],
    "turns": [U1, A1, U2],
    "system_turns": [SYSTEM, U1, A1, U2, A2, {"role": "user", "content": "Thanks!"}],
    "thinking_last": [U1, A2],
    "ends_with_assistant": [SYSTEM, U1, A1],
    "empty_content": [{"role": "user", "content": ""}],
    "empty_turns": [{"role": "system", "content": ""}, {"role": "user", "content": "x"},
                    {"role": "assistant", "content": ""}],
    "spaces": [{"role": "user", "content": " \t\n\u00a0 padded \u3000\n"}],
    "unicode": [
        {"role": "system", "content": "Antworte auf Deutsch — kurz. 你好 🙂"},
        {"role": "user", "content": "Wie heißt „Straße“ auf 日本語? 👩‍🚀 e\u0301 \u2028 \ufeff"},
    ],
    "markup": [{"role": "user", "content": "{{ 7 * 7 }} {% raw %} <|im_end|> & < > \" ' \\ \\n"}],
    "null_content": [U1, {"role": "assistant", "content": None}, {"role": "user", "content": "?"}],
    "no_content": [U1, {"role": "assistant"}],
    "two_users": [U1, U2],
    "assistant_first": [A1, U1],
    "unknown_role": [{"role": "narrator", "content": "Meanwhile"}, U1],
    "late_system": [U1, A1, SYSTEM, U2],
    "call": [U1, CALL],
    "call_result": [SYSTEM, U1, CALL, RESULT],
    "call_result_answer": [U1, CALL, RESULT, {"role": "assistant", "content": "Grey."}, U2],
    "two_calls": [
        U1,
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [call("get_weather", {"city": "Bern"}, "abcde1234"),
                           call("no_args", {}, "fghij5678")],
        },
        RESULT,
        {"role": "tool", "tool_call_id": "fghij5678", "name": "no_args", "content": "null"},
    ],
    "call_with_text_arguments": [U1, {"role": "assistant", "content": "",
                                      "tool_calls": [call("no_args", "{\"a\": [1, 2.5, null]}", "x")]}],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image"},
                                           {"type": "text", "text": " two "}]}],
    "reasoning": [U1, {"role": "assistant", "reasoning_content": "Hm.\n", "content": "Paris"}, U2],
    "long": [m for i in range(8)
             for m in ({"role": "user", "content": f"q{i}"}, {"role": "assistant", "content": f"a{i}"})],
    "none": [],
}

# What a request may set besides the messages.
SETTINGS = {
    "prompt": {"add_generation_prompt": True, "tools": None},
    "whole": {"add_generation_prompt": False, "tools": None},
    "tools": {"add_generation_prompt": True, "tools": TOOLS},
    "flags": {"add_generation_prompt": True, "tools": None, "enable_thinking": False,
              "date_string": "1 Jan 2025"},
}


def contexts():
    """(name, context) of every combination."""
    for name, messages in MESSAGES.items():
        for setting, extra in SETTINGS.items():
            yield f"{name}/{setting}", {"bos_token": "<s>", "eos_token": "</s>", "messages": messages,
                                        "documents": None, **extra}
