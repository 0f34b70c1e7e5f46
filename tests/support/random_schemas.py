"""Random JSON schemas of what Hearth supports, and random values that are likely valid under them.

The values keep to what Hearth can write: properties in the schema's order, no undeclared ones in closed
objects, and so on (docs/structured.md), so that each one that is valid must be a member of the grammar.
"""

STRINGS = ["", "a", "b", "ab", "abc", "x1", "x22", "hello world", "é", "日本", "🙂", 'q"u\\o', "line\nbreak",
           "\u0001", "Zz9", "a-b", "12"]
PATTERNS = {
    "^[a-z]+$": ["a", "abc", "hello"], "x": ["x", "ax", "x1"], "^x[0-9]{1,3}$": ["x1", "x22", "x333"],
    "[0-9]$": ["1", "a1", "é9"], "^(ab|cd)*$": ["", "ab", "abcd"], "^.{2,4}$": ["ab", "abc", "日本", "🙂é"],
    "^a|b$": ["a", "ax", "b", "xb"], "^\\w+\\s\\w+$": ["a b"],
    "^[^\"]*\"[^\"]*$": ['"', 'a"b'], "^(\\d{3})-(\\d{4})$": ["555-0199"], "\\\\": ["\\", "a\\b"],
}
FORMATS = {
    "date": ["2024-02-29", "1999-12-31"], "time": ["23:59:59Z", "00:00:00.5+01:00"],
    "date-time": ["2024-02-29T12:00:00Z"], "email": ["a.b@example.org"],
    "hostname": ["example.org", "localhost"], "ipv4": ["127.0.0.1", "255.255.255.0"],
    "ipv6": ["::1", "fe80::1:2", "1:2:3:4:5:6:7:8", "::"], "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "uri": ["https://example.org/a?b=c#d", "urn:x:y"], "duration": ["P1Y2M3DT4H5M6S", "P2W", "PT5M"],
    "json-pointer": ["", "/a/0/~1"],
}
NAMES = ["a", "b", "c", "name", "x1", "x2", "é", 'q"', "id"]


def closed(schema, is_place=True):
    """The schema without the members and items that Hearth leaves out, which are those that no keyword
    mentions.

    is_place: whether the schema is everything that applies to a value, rather than a part of it (allOf,
    anyOf, oneOf, $defs).
    """
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    for key in ("properties", "patternProperties"):
        if key in schema:
            out[key] = {name: closed(inner) for name, inner in schema[key].items()}
    for key in ("additionalProperties", "items"):
        if key in schema:
            out[key] = closed(schema[key])
    if "prefixItems" in schema:
        out["prefixItems"] = [closed(inner) for inner in schema["prefixItems"]]
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            out[key] = [closed(inner, False) for inner in schema[key]]
    if "$defs" in schema:
        out["$defs"] = {name: closed(inner, False) for name, inner in schema["$defs"].items()}
    if is_place and set(schema) - {"type"}:
        out |= {"unevaluatedProperties": False, "unevaluatedItems": False}
    return out


class RandomSchemas:
    def __init__(self, rng):
        self.rng = rng
        self.defs = {}

    def root(self):
        """A schema with definitions that may refer to each other and to the root."""
        rng = self.rng
        self.defs = {name: None for name in rng.sample(["node", "leaf", "x/y~z"], rng.randrange(0, 3))}
        for name in self.defs:
            self.defs[name] = self.schema(2)
        schema = self.schema(3)
        if self.defs and isinstance(schema, dict):
            schema = {"$defs": self.defs, **schema}
        return schema

    def schema(self, depth):
        rng = self.rng
        kinds = [self.string, self.number, self.integer, self.enum, self.const, self.simple, self.typed_list]
        if depth > 0:
            kinds += [self.object, self.object, self.array, self.array, self.any_of, self.one_of, self.all_of,
                      self.with_siblings]
            if self.defs:
                kinds += [self.reference]
        schema = rng.choice(kinds)(depth)
        if isinstance(schema, dict) and rng.random() < 0.1:
            schema = {"title": "T", "description": "a note", "default": 5, "x-note": [1], **schema}
        return schema

    def reference(self, depth):
        name = self.rng.choice(list(self.defs))
        # A property or item lies in between and may be missing, so no cycle is endless.
        return {"anyOf": [{"type": "null"},
                          {"type": "object", "properties": {"next": {"$ref": self.pointer(name)}}}]}

    @staticmethod
    def pointer(name):
        return "#/$defs/" + name.replace("~", "~0").replace("/", "~1")

    def simple(self, depth):
        return self.rng.choice([True, {}, {"type": "null"}, {"type": "boolean"}, {"type": "object"},
                                {"type": "array"}])

    def typed_list(self, depth):
        types = self.rng.sample(["null", "boolean", "integer", "string", "number"], self.rng.randrange(1, 4))
        schema = {"type": types}
        if self.rng.random() < 0.5:
            schema |= {"minLength": 1}
        if self.rng.random() < 0.5:
            schema |= {"minimum": self.rng.randrange(-5, 5)}
        return schema

    def string(self, depth):
        rng, schema = self.rng, {"type": "string"}
        choice = rng.random()
        if choice < 0.4:
            least = rng.randrange(0, 4)
            schema |= rng.choice([{"minLength": least}, {"maxLength": least + 3},
                                  {"minLength": least, "maxLength": least + 2}])
        if 0.3 < choice < 0.7:
            schema["pattern"] = rng.choice(list(PATTERNS))
        if choice > 0.8:
            schema["format"] = rng.choice(list(FORMATS))
        if rng.random() < 0.15:
            del schema["type"]
        return schema or {"type": "string"}

    def bound(self):
        rng = self.rng
        whole = rng.choice([rng.randrange(-12, 13), rng.randrange(-1500, 1500),
                            rng.choice([-1, 1]) * 10 ** rng.randrange(0, 12)])
        return rng.choice([whole, whole, whole + rng.choice([0.5, 0.25, 0.05, -0.125]),
                           round(rng.uniform(-2, 2), rng.randrange(1, 5))])

    def bounds(self):
        rng, schema = self.rng, {}
        low, high = sorted([self.bound(), self.bound()])
        if rng.random() < 0.7:
            schema[rng.choice(["minimum", "exclusiveMinimum"])] = low
        if rng.random() < 0.7:
            schema[rng.choice(["maximum", "exclusiveMaximum"])] = high
        return schema

    def integer(self, depth):
        schema = {"type": "integer", **self.bounds()}
        if self.rng.random() < 0.2:
            schema = {"type": "integer", "multipleOf": self.rng.choice([1, 2, 3, 5, 7, 10, 25, 60])}
            if self.rng.random() < 0.6:
                schema |= {"minimum": self.rng.randrange(-3, 1), "maximum": self.rng.randrange(1, 900)}
        return schema

    def number(self, depth):
        schema = {"type": "number", **self.bounds()}
        if self.rng.random() < 0.2:
            schema["multipleOf"] = self.rng.choice([0.5, 0.25, 1, 2, 20])
        return schema

    def value(self, depth=2):
        rng = self.rng
        kinds = (["string", "string", "integer", "number", "null", "boolean"]
                 + (["array", "object"] if depth > 0 else []))
        kind = rng.choice(kinds)
        if kind == "array":
            return [self.value(depth - 1) for _ in range(rng.randrange(0, 3))]
        if kind == "object":
            return {name: self.value(depth - 1) for name in rng.sample(NAMES, rng.randrange(0, 3))}
        return {"string": rng.choice(STRINGS), "integer": rng.randrange(-20, 100),
                "number": round(rng.uniform(-20, 20), 2), "null": None,
                "boolean": rng.random() < 0.5}[kind]

    def enum(self, depth):
        schema = {"enum": [self.value() for _ in range(self.rng.randrange(1, 6))]}
        if self.rng.random() < 0.2:
            schema["type"] = self.rng.choice([["string", "integer"], ["object", "number"]])
            schema["enum"] += ["always", 7]
        return schema

    def const(self, depth):
        return {"const": self.value()}

    def object(self, depth):
        rng, schema = self.rng, {"type": "object"}
        names = rng.sample(NAMES, rng.randrange(0, 5))
        if names or rng.random() < 0.2:
            schema["properties"] = {name: self.schema(depth - 1) for name in names}
            schema["required"] = [name for name in names if rng.random() < 0.5]
        choice = rng.random()
        if choice < 0.15:
            schema["additionalProperties"] = False
        elif choice < 0.35:
            schema["additionalProperties"] = rng.choice([True, self.schema(depth - 1)])
        if rng.random() < 0.12:
            schema["patternProperties"] = {rng.choice(["^x", "[0-9]$", "^b$"]): self.schema(0)}
        if rng.random() < 0.1:
            schema["propertyNames"] = rng.choice([{"maxLength": 4}, {"pattern": "^[a-z]"},
                                                  {"enum": NAMES[:4]}])
        if rng.random() < 0.15:
            schema["maxProperties"] = rng.randrange(len(schema.get("required", [])), 5)
        if names and rng.random() < 0.15:
            schema["minProperties"] = rng.randrange(0, len(names) + 1)
        return schema

    def array(self, depth):
        rng, schema = self.rng, {"type": "array"}
        choice = rng.random()
        if choice < 0.7:
            schema["items"] = self.schema(depth - 1)
        if choice > 0.5:
            schema["prefixItems"] = [self.schema(depth - 1) for _ in range(rng.randrange(1, 4))]
        if rng.random() < 0.4:
            schema["minItems"] = rng.randrange(0, 4)
        if rng.random() < 0.4:
            schema["maxItems"] = schema.get("minItems", 0) + rng.randrange(0, 3)
        if rng.random() < 0.1:
            schema = {"type": "array", "items": {"enum": rng.sample(STRINGS, 5)}, "uniqueItems": True,
                      "maxItems": rng.randrange(0, 7)}
        return schema

    def any_of(self, depth):
        return {"anyOf": [self.schema(depth - 1) for _ in range(self.rng.randrange(1, 4))]}

    def one_of(self, depth):
        kinds = [("string", self.string), ("integer", self.integer), ("array", self.array),
                 ("object", self.object)]
        if self.rng.random() < 0.5:
            return {"oneOf": [{"type": name, **make(depth - 1)} for name, make in self.rng.sample(kinds, 2)]}
        parts = []
        for tag in self.rng.sample(["cat", "dog", "eel"], 2):
            part = self.object(depth - 1)
            part["properties"] = {"kind": {"const": tag}, **part.get("properties", {})}
            part["required"] = ["kind"] + part.get("required", [])
            part.pop("propertyNames", None)
            part.pop("maxProperties", None)
            parts.append(part)
        return {"oneOf": parts}

    def all_of(self, depth):
        first = self.schema(depth - 1)
        kind = first.get("type") if isinstance(first, dict) else None
        more = {"string": [{"minLength": 1}, {"pattern": "[a-z]"}, {"maxLength": 6}],
                "integer": [{"minimum": -5}, {"type": "number"}],
                "number": [{"maximum": 900}], "array": [{"minItems": 1}, {"items": self.schema(0)}],
                "object": [{"properties": {"extra": self.schema(0)}}, {"required": ["name"]}],
                }.get(kind, [{}]) if isinstance(kind, str) else [{}]
        return {"allOf": [first, self.rng.choice(more)]}

    def with_siblings(self, depth):
        """An object with alternatives that add to it."""
        schema = self.object(depth - 1)
        schema.pop("propertyNames", None)
        schema.pop("additionalProperties", None)
        schema["anyOf"] = [{"properties": {"p": self.schema(0)}, "required": ["p"]},
                           {"properties": {"q": self.schema(0)}}]
        return schema


class RandomValues:
    """Values that are likely valid under a schema, as Hearth would write them."""

    def __init__(self, rng, root):
        self.rng = rng
        self.root = root

    def value(self, schema, depth=0):
        rng = self.rng
        if schema is True or depth > 12:
            return rng.choice([None, True, 3, "s", [], {}])
        if schema is False:
            return None
        schema = self.merged(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return rng.choice(schema["enum"])
        kinds = schema.get("type", self.implied(schema))
        kind = rng.choice(kinds) if isinstance(kinds, list) else kinds
        return getattr(self, "a_" + kind)(schema, depth)

    def merged(self, schema):
        """The schema with its references and allOf resolved and one choice made in each anyOf, in Hearth's
        order: choices come last.
        If two set the same keyword, one of them wins.
        """
        out, choices = {}, []
        self.merge(schema, out, choices)
        while choices:
            self.merge(self.rng.choice(choices.pop(0)), out, choices)
        return out

    def merge(self, schema, out, choices):
        if not isinstance(schema, dict):
            return
        for key, value in schema.items():
            if key == "properties":
                out[key] = {**out.get(key, {}), **value}
            elif key == "required":
                out[key] = out.get(key, []) + value
            elif key in ("anyOf", "oneOf"):
                choices.append(value)
            elif key not in ("$ref", "allOf"):
                out[key] = value
        for key, value in schema.items():
            for part in [self.resolve(value)] if key == "$ref" else value if key == "allOf" else []:
                self.merge(part, out, choices)

    def resolve(self, reference):
        node = self.root
        for part in reference[1:].split("/")[1:]:
            node = node[part.replace("~1", "/").replace("~0", "~")]
        return node

    @staticmethod
    def implied(schema):
        if "minLength" in schema or "maxLength" in schema or "pattern" in schema or "format" in schema:
            return "string"
        if "items" in schema or "prefixItems" in schema or "minItems" in schema:
            return "array"
        if "properties" in schema or "required" in schema:
            return "object"
        return ["null", "boolean", "integer", "string"]

    def a_null(self, schema, depth):
        return None

    def a_boolean(self, schema, depth):
        return self.rng.random() < 0.5

    def a_string(self, schema, depth):
        rng = self.rng
        if "format" in schema:
            return rng.choice(FORMATS[schema["format"]])
        if "pattern" in schema and schema["pattern"] in PATTERNS:
            return rng.choice(PATTERNS[schema["pattern"]])
        return rng.choice(STRINGS)[: schema.get("maxLength", 99)]

    def near_bounds(self, schema):
        bounds = [schema[key]
                  for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if key in schema]
        return (self.rng.choice(bounds or [0])
                + self.rng.choice([0, 1, -1, 2, 10, -10, self.rng.randrange(-100, 100)]))

    def a_integer(self, schema, depth):
        value = int(self.near_bounds(schema))
        return value - value % schema["multipleOf"] if isinstance(schema.get("multipleOf"), int) else value

    def a_number(self, schema, depth):
        value = (self.near_bounds(schema)
                 + self.rng.choice([0, 0.5, 0.25, -0.001, round(self.rng.uniform(-1, 1), 3)]))
        value = round(value, 6)
        if "multipleOf" not in schema:
            return value
        value -= value % schema["multipleOf"]
        # multiples of integers are written as integers
        return int(value) if isinstance(schema["multipleOf"], int) else value

    def a_array(self, schema, depth):
        rng = self.rng
        prefix, rest = schema.get("prefixItems", []), schema.get("items", "prefixItems" not in schema)
        least, most = schema.get("minItems", 0), schema.get("maxItems", 5)
        n = rng.randrange(least, max(least, most) + 1)
        if rest is False:
            n = min(n, len(prefix))
        items = [self.value(prefix[i] if i < len(prefix) else rest, depth + 1) for i in range(n)]
        if schema.get("uniqueItems") and isinstance(rest, dict) and "enum" in rest:
            items = sorted(set(items), key=schema["items"]["enum"].index)
        return items

    def a_object(self, schema, depth):
        rng, out = self.rng, {}
        properties, required = schema.get("properties", {}), schema.get("required", [])
        additional = schema.get("additionalProperties")
        for name, inner in properties.items():
            if name in required or rng.random() < 0.5:
                out[name] = self.value(inner, depth + 1)
        for name in required:
            if name not in properties:
                out[name] = self.value(additional if additional is not None else True, depth + 1)
        is_open = additional is not None or not (properties or required or "patternProperties" in schema)
        if is_open and additional is not False and "propertyNames" not in schema and rng.random() < 0.5:
            out["other"] = self.value(True if additional is None else additional, depth + 1)
        return out

    def changed(self, value):
        """The value with a small change somewhere; it is often no longer valid."""
        rng = self.rng
        if isinstance(value, dict) and value and rng.random() < 0.8:
            name = rng.choice(list(value))
            if rng.random() < 0.3:
                return {key: inner for key, inner in value.items() if key != name}
            return {key: self.changed(inner) if key == name else inner for key, inner in value.items()}
        if isinstance(value, list) and value and rng.random() < 0.8:
            i = rng.randrange(len(value))
            return (value[:i] + rng.choice([[], [self.changed(value[i])], [value[i], value[i]]])
                    + value[i + 1:])
        if isinstance(value, bool) or value is None:
            return rng.choice([None, True, False, "", 0])
        if isinstance(value, (int, float)):
            return rng.choice([value + 1, value - 1, value * 10, -value, value + 0.5, value + 0.001,
                               str(value)])
        if isinstance(value, str):
            return rng.choice([value + "a", value[1:], value + "1", "\n" + value, value * 2, len(value)])
        return rng.choice([None, 1, "a", [], {}, {"a": 1}, [1]])
