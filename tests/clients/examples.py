"""The requests that all clients make. A model of 135M parameters knows little, but it can copy, and a
constraint keeps its form.

Every value in the schemas comes from a short list, because such a model does not end a free text by itself.
"""
from typing import Literal

from pydantic import BaseModel

MODEL = "smol"
QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris"  # how the model's answer begins at temperature 0
MESSAGES = [{"role": "user", "content": QUESTION}]
LONG = "Write a very long story about a lighthouse."  # for clients that leave before the end

DESCRIBE = "The city is Paris. Which city, and in which country?"


class City(BaseModel):
    """A city and its country."""
    name: Literal["Paris", "Berlin", "Rome"]
    country: Literal["France", "Germany", "Italy"]
    is_capital: bool


WEATHER_QUESTION = "What is the weather in Paris, in celsius?"
CITIES = ["Paris", "Berlin", "Rome"]
UNITS = ["celsius", "fahrenheit"]
WEATHER_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": CITIES}, "unit": {"type": "string", "enum": UNITS}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
WEATHER_TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Tells the weather of a city.",
                 "parameters": WEATHER_SCHEMA},
}


def is_weather_call(arguments):
    """Whether parsed arguments satisfy WEATHER_SCHEMA."""
    return set(arguments) == {"city", "unit"} and arguments["city"] in CITIES and arguments["unit"] in UNITS
