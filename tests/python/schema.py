"""As much of JSON Schema as stator/recording/schema.json uses: what does not fit is a list of sentences."""

from __future__ import annotations

from typing import Any

_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
_KNOWN = {
    "$schema",
    "$defs",
    "$ref",
    "title",
    "description",
    "type",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "prefixItems",
    "const",
}


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def misfits(value: Any, schema: dict[str, Any], root: dict[str, Any], path: str = "$") -> list[str]:
    assert schema.keys() <= _KNOWN, schema.keys() - _KNOWN
    if "$ref" in schema:
        return misfits(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, path)
    if "const" in schema and value != schema["const"]:
        return [f"{path} is {value!r}"]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        return [f"{path} is {type(value).__name__}, not {' or '.join(kinds)}"]
    found = []
    if isinstance(value, dict):
        found += [f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value]
        others = schema.get("additionalProperties", True)
        for name, inner in value.items():
            if name in schema.get("properties", {}):
                found += misfits(inner, schema["properties"][name], root, f"{path}.{name}")
            elif others is False:
                found.append(f"{path}.{name} is not in the schema")
            elif isinstance(others, dict):
                found += misfits(inner, others, root, f"{path}.{name}")
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        if first and len(value) != len(first):
            found.append(f"{path} has {len(value)} items")
        for i, inner in enumerate(value):
            rule = first[i] if i < len(first) else schema.get("items")
            if rule is not None:
                found += misfits(inner, rule, root, f"{path}[{i}]")
    return found
