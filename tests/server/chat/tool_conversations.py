"""Twelve conversations with tools, thinking and plain turns, which the templates of tests/data/chat_templates
are rendered with by test_chat_templates_oracle.py.
"""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city, \"now\" & later.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
                               "exact": {"type": "boolean"}},
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "now", "description": "The time.",
                     "parameters": {"type": "object", "properties": {}}},
    },
]


def call(name, arguments, identifier):
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*made, content=None, **more):
    return {"role": "assistant", "content": content, "tool_calls": list(made), **more}


def result(content, identifier, name):
    return {"role": "tool", "tool_call_id": identifier, "name": name, "content": content}


ASK = {"role": "user", "content": "How is the weather in Zürich?"}
SYSTEM = {"role": "system", "content": "Be short.\n"}
ANSWER = {"role": "assistant", "content": "Gray, 7 °C."}
WEATHER = call("get_weather", {"city": "Zürich", "days": 2, "exact": True}, "abcde1234")
NOW = call("now", {}, "fghij5678")
GRAY = result('{"sky": "gray"}', "abcde1234", "get_weather")
NOON = result("noon", "fghij5678", "now")
DEEP = call("get_weather",
            {"city": 'a "b" \\ <c> & \'d\'\n', "options": {"list": [1, 2.5, None, {"x": "日本"}]}}, "klmno9012")

MESSAGES = {
    "question": [ASK],
    "system_and_turns": [SYSTEM, ASK, ANSWER, {"role": "user", "content": "And tomorrow?"}],
    "call": [ASK, calls(WEATHER)],
    "call_with_empty_content": [ASK, calls(WEATHER, content="")],
    "call_after_text": [ASK, calls(WEATHER, content="Let me look.")],
    "call_with_text_arguments": [ASK,
                                 calls(call("get_weather", '{"city": "Bern"}', "abcde1234"), content="")],
    "result": [SYSTEM, ASK, calls(WEATHER), GRAY],
    "result_and_answer": [ASK, calls(WEATHER), GRAY, ANSWER, {"role": "user", "content": "Thanks."}],
    "two_calls": [ASK, calls(WEATHER, NOW), GRAY, NOON],
    "deep_arguments": [ASK, calls(DEEP)],
    "thinking_and_call": [ASK, calls(WEATHER, reasoning_content="Zürich...\nI need a tool."), GRAY],
    "thinking_answer": [ASK, {**ANSWER, "reasoning_content": "It is known.", "thinking": "It is known.",
                              "reasoning": "Known."}],
}

SETTINGS = {
    "prompt": {"add_generation_prompt": True, "tools": None},
    "whole": {"add_generation_prompt": False, "tools": None},
    "tools": {"add_generation_prompt": True, "tools": TOOLS},
    "no_thinking": {"add_generation_prompt": True, "tools": TOOLS, "enable_thinking": False,
                    "thinking": True},
}


def contexts():
    """(name, context) of every combination."""
    for name, messages in MESSAGES.items():
        for setting, extra in SETTINGS.items():
            yield f"{name}/{setting}", {"bos_token": "<s>", "eos_token": "</s>", "messages": messages,
                                        "documents": None, **extra}
