"""Pieces of the standard library."""

from tests.python.driver_programs.common import program


@program
def json_round_trip():
    import json

    text = json.dumps({"a": [1, 2.5, None, True, "é"], "b": {"c": {}}}, indent=1, sort_keys=True)
    return json.loads(text), text


@program
def regular_expressions():
    import re

    return re.sub(r"(\w+)-(\d+)", lambda m: m[2] + m[1], "ab-1 cd-22"), re.findall("[a-c]+", "aabdcc")


@program
def textwrap_and_string():
    import string
    import textwrap

    return textwrap.fill("the quick brown fox jumps over the lazy dog", 20), string.Template("$a ${b}").substitute(
        a=1, b=2
    )


@program
def copy_and_pickle(x):
    import copy
    import pickle

    y = copy.deepcopy(x)
    z = pickle.loads(pickle.dumps(x))
    return y == x, z == x, y.items, z.items is x.items


@program
def fractions_and_decimal():
    from decimal import Decimal
    from fractions import Fraction

    return Fraction(3, 4) + Fraction(1, 3), Decimal("1.1") * 3, sum(Fraction(1, n) for n in range(1, 10))


@program
def ast_and_compile():
    import ast

    tree = ast.parse("def f(x):\n  return [i for i in x if i]")
    ns = {}
    exec(compile(tree, "<x>", "exec"), ns)
    return ns["f"]([0, 1, 2]), ast.unparse(tree)


@program
def argparse_error():
    import argparse

    p = argparse.ArgumentParser(prog="p")
    p.add_argument("--n", type=int, default=3)
    p.add_argument("files", nargs="*")
    return sorted(vars(p.parse_args(["--n", "5", "a", "b"])).items())
