"""schema.py SCHEMA COMMAND|TABLE <JSON - does what a command printed follow the schema of `moefold help json --schema`?
Says where it does not. Every line of the input is one value. Knows the words of JSON Schema that fields.c writes."""
import json
import sys

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
         "null": type(None)}


def faults(value, schema, root, place):
    """Where `value` does not follow `schema`, as texts."""
    if "$ref" in schema:
        yield from faults(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, place)
    if "anyOf" in schema:
        tried = [list(faults(value, s, root, place)) for s in schema["anyOf"]]
        if all(tried):
            yield from min(tried, key=len)
    if "type" in schema:
        right = TYPES[schema["type"]]
        if not isinstance(value, right) or (isinstance(value, bool) and right is not bool):
            yield f"{place}: {json.dumps(value)[:60]} is no {schema['type']}"
            return
    if isinstance(value, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        for key in schema.get("required", []):
            if key not in value:
                yield f"{place}: no {key}"
        for key, part in value.items():
            if key in known:
                yield from faults(part, known[key], root, f"{place}.{key}")
            elif more is False:
                yield f"{place}: {key} is in no table"
            elif more is not True:
                yield from faults(part, more, root, f"{place}.{key}")
    if isinstance(value, list) and "items" in schema:
        for i, part in enumerate(value):
            yield from faults(part, schema["items"], root, f"{place}[{i}]")


def main():
    root = json.load(open(sys.argv[1]))
    lines = [json.loads(line) for line in sys.stdin]
    found = [] if lines else ["nothing was printed"]
    for value in lines:
        schema = root["commands"].get(sys.argv[2]) or {"$ref": "#/$defs/" + sys.argv[2]}
        found += faults(value, schema, root, sys.argv[2])
    print("\n".join(found[:10]))
    sys.exit(bool(found))


main()
