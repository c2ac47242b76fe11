"""The one opcode table against CPython's own: nothing missing, nothing too much, every stack effect right."""

import dis
import opcode
import sys
import types

import pytest

from stator import _core

UNIT = {"PRECALL", "CALL"} & set(opcode.opmap)
UNSEEN = {"RESERVED", "INTERPRETER_EXIT", "ENTER_EXECUTOR", "EXIT_INIT_CHECK"}
TABLE = _core.opcode_table()
NAMES = {row["opcode"]: name for name, row in TABLE.items()}
K_JUMPS, K_CALL_UNIT, K_PROLOGUE = 8, 128, 64
# What code objects hold: neither the compiler's own opcodes nor those of tools that watch, nor what only CPython's loop
# makes.
OPCODES = {
    name: op
    for name, op in opcode.opmap.items()
    if op < 256 and not name.startswith("INSTRUMENTED_") and name not in UNSEEN
}
HAS_ARGUMENT = set(dis.hasarg) if hasattr(dis, "hasarg") else {o for o in OPCODES.values() if o >= opcode.HAVE_ARGUMENT}
MINOR = sys.version_info[1]


def meaning(op, arg):
    """(name of the table's row, its argument)."""
    op, arg = _core.opcode_meaning(op, arg)
    return NAMES[op], arg


def arguments(name):
    if OPCODES[name] not in HAS_ARGUMENT:
        return [None]
    if name == "UNPACK_EX":
        return [a | b << 8 for a in range(5) for b in range(5)]
    if name == "BUILD_SLICE":
        return [2, 3]
    if name == "MAKE_FUNCTION":
        return range(16)
    if name.startswith("CALL_INTRINSIC"):
        return range(1, 12 if name.endswith("1") else 5)
    return [*range(40), 255, 256, 300, 1000]


# CPython's compiler books some effects elsewhere than where they happen, and than in our table: those of a call at
# PRECALL (3.11; as a unit both agree), what a loop or delegation that ends leaves to END_FOR and END_SEND, and what a
# new generator is resumed with.
def booked(name, arg, jump):
    if name == "FOR_ITER" and jump and MINOR >= 12:
        return {12: -2, 13: -1 if dis.stack_effect(OPCODES["FOR_ITER"], 1, jump=True) == 0 else -2}[MINOR]
    if name == "SEND" and jump and MINOR >= 12:
        return -1
    if name == "RETURN_GENERATOR" and MINOR >= 13:
        return -1
    return 0


def test_names_and_numbers():
    met = {meaning(op, arg or 0)[0] for name, op in OPCODES.items() for arg in arguments(name)}
    assert met == set(TABLE)
    same = set(TABLE) & set(OPCODES)
    assert {n: TABLE[n]["opcode"] for n in same} == {n: OPCODES[n] for n in same}
    # names that are not this version's have numbers that its code never holds
    others = set(TABLE) - same
    assert not {TABLE[n]["opcode"] for n in others} & set(opcode.opmap[n] for n in OPCODES)


@pytest.mark.parametrize("name", sorted(set(OPCODES) - UNIT))
def test_stack_effect(name):
    op = OPCODES[name]
    for arg in arguments(name):
        for jump in (False, True):
            meant, its_arg = _core.opcode_meaning(op, arg or 0)
            pops, pushes = _core.opcode_effect(meant, its_arg, jump)
            assert pops >= 0 and pushes >= 0
            theirs = dis.stack_effect(op, arg, jump=jump)
            assert pushes - pops == theirs + booked(name, arg, jump), (name, arg, jump)


def test_stack_effect_of_calls():
    for arg in range(300):
        ours = sum(e[1] - e[0] for e in (_core.opcode_effect(OPCODES[n], arg, False) for n in UNIT))
        assert ours == sum(dis.stack_effect(OPCODES[n], arg) for n in UNIT)


def test_jumps_are_marked():
    jumps = {meaning(o, 0)[0] for o in (*dis.hasjrel, *dis.hasjabs) if o in OPCODES.values()}
    assert {n for n, row in TABLE.items() if row["effects"] & K_JUMPS} == jumps


def test_unknown_opcode_is_refused():
    with pytest.raises(ValueError):
        _core.opcode_effect(255, 0, False)


# --- Decoded code
def codes():
    import asyncio.base_events
    import inspect
    import json.encoder
    import tarfile

    seen = []

    def walk(code):
        seen.append(code)
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                walk(const)

    for module in (dis, inspect, asyncio.base_events, json.encoder, tarfile):
        walk(compile(open(module.__file__).read(), module.__file__, "exec"))
    body = "\n".join(f"  v{i} = {i}.5" for i in range(400))
    walk(
        compile(
            f"def long(n):\n{body}\n  while n:\n    n -= v399\n    if n > v300: n = f(n, k=v1)\n  return v1",
            "<long>",
            "exec",
        )
    )
    return seen


# What the jump of a loop or delegation that ends does by itself, and so skips.
TAILS = {"FOR_ITER": {12: ["END_FOR"], 13: ["END_FOR", "POP_TOP"]}, "SEND": {12: ["END_SEND"], 13: ["END_SEND"]}}


def test_decoding_agrees_with_dis():
    for code in codes():
        theirs = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
        ours = _core.code_info(code)
        # the byte behind an opcode without an argument means nothing
        assert [(*meaning(i.opcode, i.arg or 0), i.offset) for i in theirs] == [
            (NAMES[our["opcode"]], our["oparg"] if i.arg is not None else meaning(i.opcode, 0)[1], our["opcode_offset"])
            for i, our in zip(theirs, ours, strict=True)
        ]
        by_offset = {i.offset: i.opname for i in theirs}
        for their, our in zip(theirs, ours, strict=True):
            if their.opcode in dis.hasjrel:
                skipped = our["target"] - their.argval
                tail = [by_offset[their.argval + at] for at in range(0, skipped, 2)]
                assert tail == TAILS.get(their.opname, {}).get(MINOR, []), their
            else:
                assert our["target"] == -1
            if their.positions.lineno:
                assert our["line"] == their.positions.lineno
        tails = {t for of_versions in TAILS.values() for t in of_versions.get(MINOR, [])}
        targets = {i.offset for i in dis.get_instructions(code) if i.is_jump_target and i.opname not in tails}
        starts = {i["offset"] for i in ours}
        assert {i["offset"] for i in ours if i["jump_target"]} >= targets & starts


def test_exception_table_agrees_with_dis():
    for code in codes():
        table = {}
        for entry in dis._parse_exception_table(code):
            for at in range(entry.start, entry.end, 2):
                table.setdefault(at, (entry.target, entry.depth, entry.lasti))
        for i in _core.code_info(code):
            assert i["handler"] == table.get(i["opcode_offset"])


def test_quickened_code_decodes_the_same():
    def f(n):
        t = 0
        for i in range(n):
            t += i
            if t > 10**9:
                t = len([t])
        return t

    before = _core.code_info(f.__code__.replace())
    for _ in range(20):
        f(100)
    plain = [i.opname for i in dis.get_instructions(f)]
    assert [i.opname for i in dis.get_instructions(f, adaptive=True)] != plain
    assert _core.code_info(f.__code__) == before


def test_legal_offsets():
    for code in codes():
        instrs = _core.code_info(code)
        unit = False
        resumed = False
        for i in instrs:
            name = NAMES[i["opcode"]]
            assert i["legal"] == (resumed and not unit), (code.co_name, i)
            # a comprehension that is part of the function makes its cells in the middle
            assert name == "MAKE_CELL" or not (i["legal"] and TABLE[name]["effects"] & K_PROLOGUE)
            unit = bool(TABLE[name]["effects"] & K_CALL_UNIT)
            resumed = resumed or name == "RESUME"


def live_at(fn, opname, arg=None):
    at = next(i.offset for i in dis.get_instructions(fn) if i.opname == opname and (arg is None or i.argval == arg))
    return set(next(i["live"] for i in _core.code_info(fn.__code__) if i["opcode_offset"] == at))


def test_liveness_straight_line():
    def f(a, b):
        c = a + 1
        here()  # noqa: F821
        d = c
        a = 2
        return a + d

    assert live_at(f, "LOAD_GLOBAL", "here") == {"c"}


def test_liveness_loops_and_branches():
    def f(a, n, unused):
        t = 0
        while n:
            n -= 1
            if n % 2:
                t += a
        return t

    # n lies on the stack already and is stored next; a and t are read in a later round or behind the loop.
    assert live_at(f, "BINARY_OP") == {"a", "t"}
    assert live_at(f, "LOAD_FAST", "n") == {"a", "n", "t"}


def test_liveness_through_handlers():
    def f(a):
        b = 1
        try:
            b = g(a)  # noqa: F821
        except ValueError:
            return b
        return 0

    # If the call raises, the handler reads the old b.
    assert "b" in live_at(f, "PRECALL" if MINOR < 12 else "CALL")
    assert "a" not in live_at(f, "PRECALL" if MINOR < 12 else "CALL")


def test_liveness_of_cells_and_deletion():
    def f(a, b):
        c = a

        def g():
            return c

        del b
        return g

    live = live_at(f, "DELETE_FAST")
    assert {"b", "g"} <= live and "a" not in live


def test_liveness_of_super():
    class K:
        def f(self):
            x = 1
            here()  # noqa: F821
            return super()

    assert {"self", "__class__"} <= live_at(K.f, "LOAD_GLOBAL", "here")
