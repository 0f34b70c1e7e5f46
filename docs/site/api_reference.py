"""Writes the page "API reference" from the OpenAPI document that hearthd serves at /openapi.json.

    api_reference.py [OPENAPI.json]      prints the page; hooks.py makes it part of the site

An endpoint has its parameters, the fields of its body, an example as a command, its answers, and its error
codes. A schema that one body alone uses is shown with it; the others stand under "Schemas" and are linked to.
"""
import collections
import json
import pathlib
import re
import sys

# limits of C++'s integers, which are no bounds that matter to a reader
LARGEST = {2**31 - 1, -2**31, 2**63 - 1, -2**63, 2**64 - 1}
SCHEMA = "#/components/schemas/"


def name_of(schema):
    return schema.get("$ref", "").removeprefix(SCHEMA)


def anchor(name):
    return "schema-" + re.sub(r"[^\w-]", "", name.lower())


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def code(value):
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def bounds(schema):
    """A value's range in words, "" if it has none."""
    low, high = schema.get("minimum"), schema.get("maximum")
    low, high = (None if bound in LARGEST else bound for bound in (low, high))
    words = []
    if "exclusiveMinimum" in schema:
        words.append(
            f"above {schema['exclusiveMinimum']}" + (f", at most {high}" if high is not None else ""))
    elif low is not None and high is not None:
        words.append(f"{low:,} to {high:,}")
    elif low is not None:
        words.append(f"at least {low:,}")
    elif high is not None:
        words.append(f"at most {high:,}")
    for unit, least, most in (("items", "minItems", "maxItems"), ("characters", "minLength", "maxLength")):
        if most in schema:
            words.append(f"{schema.get(least, 0) or 'up'} to {schema[most]:,} {unit}")
        elif schema.get(least) == 1:
            words.append("not empty")
        elif least in schema:
            words.append(f"at least {schema[least]:,} {unit}")
    return ", ".join(words)


def distinct(words):
    return list(dict.fromkeys(word for word in words if word))


def kind(schema):
    """Describes in words what a value may be. Leaves out null, which means that the field is absent."""
    if "$ref" in schema:
        return f"[{name_of(schema)}](#{anchor(name_of(schema))})"
    if "const" in schema:
        return code(schema["const"])
    if "enum" in schema:
        return ", ".join(code(value) for value in schema["enum"] if value is not None)
    for choice in ("anyOf", "oneOf"):
        forms = distinct(kind(part) for part in schema.get(choice, []) if part.get("type") != "null")
        if forms and "type" not in schema:
            return " or ".join(forms)
    if "allOf" in schema:
        return " and ".join(distinct(kind(part) for part in schema["allOf"]))
    types = schema.get("type", [])
    types = [t for t in ([types] if isinstance(types, str) else types) if t != "null"]
    if types == ["array"] and "items" in schema:
        words = "array of " + kind(schema["items"])
    else:
        words = " or ".join(types) or "any value"
    limit = bounds(schema)
    return words + (f", {limit}" if limit else "")


def fields_of(schema, prefix="", depth=0):
    """(name, schema, needed) of an object's fields; fields of nested objects as outer.inner."""
    for name, field in schema.get("properties", {}).items():
        yield prefix + name, field, name in schema.get("required", [])
        inner = field.get("items", {}) if field.get("type") == "array" else field
        mark = "[]." if inner is not field else "."
        if depth < 2 and "properties" in inner:
            yield from fields_of(inner, prefix + name + mark, depth + 1)


def table(rows):
    if not rows:
        return []
    with_default = any("default" in field for _, field, _ in rows)
    out = ["", "| field | value |" + (" default |" if with_default else "") + " |",
           "|---|---|" + ("---|" if with_default else "") + "---|"]
    for name, field, needed in rows:
        default = code(field["default"]) if "default" in field else ""
        words = field.get("description", "")
        words = ("**needed.** " if needed else "") + words
        out.append(f"| `{name}` | {kind(field).replace('|', chr(92) + '|')} |"
                   + (f" {default} |" if with_default else "")
                   + f" {cell(words)} |")
    return [*out, ""]


def object_lines(schema):
    """A schema's description, its fields and its parts."""
    out = [cell(schema["description"]), ""] if "description" in schema else []
    parts = schema.get("allOf")
    if parts is None and "properties" not in schema:
        forms = schema.get("anyOf", schema.get("oneOf"))
        if forms and any("properties" in form for form in forms):
            for i, form in enumerate(forms):
                out += [f"*Form {i + 1} of {len(forms)}.* " + cell(form.get("description", "")),
                        *table(list(fields_of(form)))]
            return out
        if schema.get("type") == "array" and "properties" in schema.get("items", {}):
            return [*out, "An array of:", *table(list(fields_of(schema["items"])))]
        return [*out, f"Value: {kind(schema)}.", ""]
    own = [schema] if parts is None else [part for part in [*parts, schema] if "properties" in part]
    rows = [row for part in own for row in fields_of(part)]
    needed = {name for part in [schema, *(parts or [])] for name in part.get("required", [])}
    out += table([(name, field, is_needed or name in needed) for name, field, is_needed in rows])
    others = [kind(part) for part in parts or [] if "$ref" in part]
    if others:
        out += [("And" if rows else "Has") + " the fields of " + ", ".join(others) + ".", ""]
    return out


class Page:
    def __init__(self, document):
        self.document = document
        self.schemas = document["components"]["schemas"]
        self.responses = document["components"]["responses"]
        uses = collections.Counter(re.findall(re.escape(SCHEMA) + r"(\w+)", json.dumps(document)))
        bodies = [name_of(self.body_schema(operation)) for _, _, operation in self.operations()]
        self.beside_body = {name for name in bodies if name and uses[name] == 1}

    def operations(self):
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                yield method, path, operation

    def body_schema(self, operation):
        content = operation.get("requestBody", {}).get("content", {})
        return next(iter(content.values()), {}).get("schema", {})

    def response(self, response):
        return self.responses[response["$ref"].rpartition("/")[2]] if "$ref" in response else response

    def example(self, method, path, operation):
        content = next(iter(operation.get("requestBody", {}).get("content", {}).values()), {})
        address = f"curl http://127.0.0.1:8080{path}"
        if "example" in content:
            body = json.dumps(content["example"], ensure_ascii=False)
            if len(body) > 90:
                body = json.dumps(content["example"], indent=2, ensure_ascii=False)
            quoted = body.replace("'", "'\\''")
            return ["```sh", f"{address} -d '{quoted}'", "```", ""]
        if method == "get" and "{" not in path:
            return ["```sh", address, "```", ""]
        return []

    def operation(self, method, path, operation):
        out = [f"### `{method.upper()} {path}`", "", operation["summary"].rstrip(".") + ".", ""]
        if "description" in operation:
            out += [operation["description"], ""]
        out += self.example(method, path, operation)
        parameters = [(p["name"],
                       {**p.get("schema", {}),
                        "description": f"In the {p['in']}. {p.get('description', '')}".strip()},
                       p.get("required", False))
                      for p in operation.get("parameters", [])]
        if parameters:
            out += ["**Parameters**", *table(parameters)]
        body = self.body_schema(operation)
        if name_of(body) in self.beside_body:
            out += ["**Body**", "", *object_lines(self.schemas[name_of(body)])]
        elif "properties" in body:
            out += ["**Body**", "", *object_lines(body)]
        elif body:
            out += [f"**Body**: {kind(body)}.", ""]
        errors = []
        for status, response in operation["responses"].items():
            if "$ref" in response:
                errors.append(status)
                continue
            out += [f"**{status}**: {response.get('description', '')}", ""]
            for media, content in response.get("content", {}).items():
                schema = content.get("schema", {})
                if media == "text/event-stream":
                    out += [f"`{media}`: {schema.get('description', '')}", ""]
                elif "properties" in schema:
                    out += [f"`{media}`: {schema.get('description', '')}", *table(list(fields_of(schema)))]
                elif schema:
                    out += [f"`{media}`: {kind(schema)}"
                            + (f". {schema['description']}" if "description" in schema else ""), ""]
        if errors:
            out += ["**Errors**: " + ", ".join(f"[{status}](#{status})" for status in errors), ""]
        return out

    def errors(self):
        """Each status with its meanings, and the shapes of error bodies."""
        meanings = collections.defaultdict(list)
        for _, _, operation in self.operations():
            for status, response in operation["responses"].items():
                if "$ref" in response:
                    meanings[status].append(self.response(response)["description"])
        out = ["## Errors", "",
               "The body of an error has the shape of the endpoint's family: [Error](#schema-error), "
               "[AnthropicError](#schema-anthropicerror) or [OllamaError](#schema-ollamaerror).", ""]
        for status in sorted(meanings):
            out += [f"### {status}", "", *distinct(meanings[status]), ""]
        return out

    def lines(self):
        out = ["# API reference", "",
               "Every endpoint of `hearthd`, made from the OpenAPI document that it serves at "
               "`/openapi.json`. [HTTP API](api.md) says what the parameters mean, what is refused "
               "and where Hearth differs from others. In requests `null` means absent. Paths work "
               "with and without `/v1`.", "",
               "A key, if the server has any, goes into `Authorization: Bearer KEY` or `X-Api-Key: KEY`.", ""]
        by_tag = collections.defaultdict(list)
        for method, path, operation in self.operations():
            by_tag[operation.get("tags", ["Server"])[0]].append((method, path, operation))
        for tag in [tag["name"] for tag in self.document["tags"]]:
            out += [f"## {tag}", ""]
            for method, path, operation in by_tag.pop(tag):
                out += self.operation(method, path, operation)
        if by_tag:
            sys.exit(f"openapi.json: endpoints have the tags {', '.join(by_tag)}, which its list "
                     "of tags does not name")
        out += self.errors()
        out += ["## Schemas", ""]
        for name in sorted(self.schemas, key=str.lower):
            if name not in self.beside_body:
                out += [f'### {name} {{#{anchor(name)}}}', "", *object_lines(self.schemas[name])]
        return out


def page(path):
    document = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    return "\n".join(Page(document).lines()) + "\n"


if __name__ == "__main__":
    default = pathlib.Path(__file__).resolve().parents[2] / "server/api/description/openapi.json"
    sys.stdout.write(page(sys.argv[1] if len(sys.argv) > 1 else default))
