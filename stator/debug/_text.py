"""Graphs to text and back: how a call's target and constants are written in a script, and the reader of such scripts.

The reader takes the function `forward` of a script, one call a line, as the writer makes it and as a person may have
edited it. What it does not understand it says, with the line.
"""

import ast
import contextlib
import dataclasses
import enum
import functools
import operator
import os
import pkgutil
import re
import sys
import weakref
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS
from torch.fx.graph import _parse_stack_trace, inplace_methods, magic_methods
from torch.fx.node import _get_qualified_name
from torch.utils._dtype_abbrs import dtype_abbrs

from stator import _core
from stator.debug._program import NotWritable, ScriptError, program_file, program_of

Specimen = _core.Specimen

# Names that every script has in its globals.
_PREFIXES = ("torch", "operator", "math", "builtins")


@functools.cache
def _registrar(op):
    """The module that has to be imported for an operator to be there; None for those of torch."""
    at = re.search(r"^debug: registered at (.*\.py):\d+$", torch._C._dispatch_dump(op.name()), re.MULTILINE)
    if at is None:
        return None
    made = OPDEFS.get(op.name().partition(".")[0])
    if made is not None:
        return made._init_fn.__module__
    modules = [(name, m) for name, m in list(sys.modules.items()) if not name.startswith(("torch.ops.", "torch._ops"))]
    if not at[1].startswith(os.path.dirname(torch.__file__)):
        return next((name for name, module in modules if getattr(module, "__file__", None) == at[1]), None)
    # torch.library.define names torch's own file. Who defines an operator has it under a name, mostly.
    packet = op.overloadpacket
    return next((name for name, m in modules if any(v is op or v is packet for v in list(vars(m).values()))), None)


# ---- from FX

_INPLACE = {getattr(operator, name) for name in (*inplace_methods, "delitem")}


def short_name(target):
    """`relu` for torch.relu, Tensor.relu, F.relu and aten.relu.default."""
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.partition("::")[2]
    return getattr(target, "__name__", type(target).__name__)


def is_random(target):
    if isinstance(target, torch._ops.OpOverload):
        return torch.Tag.nondeterministic_seeded in target.tags
    # Functions and methods of torch are called as the operators below them, but for some of torch.nn.functional.
    name = short_name(target)
    packet = getattr(torch.ops.aten, name, None)
    return "dropout" in name or (packet is not None and any(is_random(getattr(packet, o)) for o in packet.overloads()))


def is_higher_order(target):
    return isinstance(target, torch._ops.HigherOrderOperator)


def mutates(target, kwargs):
    """Whether a call has to stay even if nothing reads its result."""
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.is_mutable or is_random(target)
    if not isinstance(target, str) and getattr(target, "__module__", "") == "_operator":
        return target in _INPLACE
    name = short_name(target)
    own = ("__setitem__", "__iadd__", "__imul__", "__isub__")
    inplace = (name.endswith("_") and not name.endswith("__")) or name in own
    switch = name.startswith("_set_") or name in ("set_grad_enabled", "_enter_autocast", "_exit_autocast")
    return inplace or switch or "out" in kwargs or kwargs.get("inplace") is True or is_random(target)


def tensor_facts(dtype, shape, device):
    where = "" if str(device) == "cpu" else f" {device}"
    return f"{dtype_abbrs.get(dtype, str(dtype).removeprefix('torch.'))}[{', '.join(map(str, shape))}]{where}"


def facts_of(value):
    """(kind, text) of a value, as the specimen keeps them."""
    if isinstance(value, torch.Tensor):
        try:
            shape = tuple(value.shape)
        except RuntimeError:
            shape = "?"
        return "t", tensor_facts(value.dtype, shape, value.device)
    if isinstance(value, (tuple, list)):
        return "m", "(" + ", ".join(facts_of(v)[1] for v in value) + ")"
    if isinstance(value, torch.SymInt):
        return "s", f"SymInt {value}"
    if isinstance(value, (int, float, bool, torch.SymFloat, torch.SymBool)):
        return "s", type(value).__name__
    return "o", type(value).__name__ if value is not None else "None"


def symbolic_shape(value):
    """Which sizes of a value are symbols: a tensor's sizes with names among them, the name of an int, or None."""
    if isinstance(value, torch.SymInt):
        return str(value)
    sizes = tuple(value.shape) if isinstance(value, torch.Tensor) else ()
    if not any(isinstance(size, torch.SymInt) for size in sizes):
        return None
    return tuple(size if isinstance(size, int) else str(size) for size in sizes)


def _value_of(node):
    return node.meta["val"] if "val" in node.meta else node.meta.get("example_value")


def symbolic_shapes(module):
    """{name of an input: symbolic_shape} of a graph module's inputs that have one."""
    shapes = {node.name: symbolic_shape(_value_of(node)) for node in module.graph.find_nodes(op="placeholder")}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def user_line(trace):
    """`model.py:12 in forward: y = relu(x)` from a stack trace, its innermost frame."""
    found = _parse_stack_trace(trace or "")
    if found is None:
        return ""
    return f"{os.path.basename(found.file)}:{found.lineno} in {found.name}: {found.code}"


def describe(node):
    """What a specimen keeps of an FX node: (kind, facts, line, mutates)."""
    meta, value = node.meta, _value_of(node)
    kind, text = facts_of(value) if value is not None else ("t", "")
    changes = node.op.startswith("call") and mutates(node.target, node.kwargs)
    line = meta["user_line"] if "user_line" in meta else user_line(meta.get("stack_trace"))
    return kind, text, line, changes


def copied(graph, nodes=None):
    """A copy of a graph. nodes: a dict for {node: its copy}."""
    made = torch.fx.Graph()
    made.output(made.graph_copy(graph, {} if nodes is None else nodes))
    return made


# ---- functions that graphs call: bodies of higher-order operators

_bodies: weakref.WeakKeyDictionary[Any, Any] = (
    weakref.WeakKeyDictionary()
)  # graph module -> (name in scripts, specimen)


def _known_body(module, name, specimen):
    _bodies[module] = name, specimen
    module.__dict__.update(_stator_name=name, _stator_hash=specimen.hash())
    return module


def body_of(module):
    """The specimen of a function that a graph calls, if it is known."""
    return _bodies[module][1] if module in _bodies else None


def from_module(module, name=None):
    """The specimen of a graph module, and tensors of the module that become its last inputs. name: it is a function
    that another graph calls."""
    tensors = []

    def attribute(node):
        value = operator.attrgetter(node.target)(module)
        if isinstance(value, torch.Tensor) and name is None:
            tensors.append(value)
            return None
        if not isinstance(value, torch.fx.GraphModule):
            raise NotWritable(f"{name or 'the graph'} holds a {type(value).__name__} ({node.target}): no script can")
        if value not in _bodies:
            own = re.sub(r"\W", "_", f"{name}_{node.target}" if name else node.target)
            _known_body(value, own, from_module(value, own)[0])
        return value

    try:
        return Specimen.from_fx(module.graph, describe, name is not None, attribute), tensors
    except NotImplementedError as error:
        raise NotWritable(str(error)) from None


def picked_outputs(module, specimen):
    """Which of a module's outputs the specimen's are: it has no None, no constants and nothing twice."""
    output = next(iter(module.graph.find_nodes(op="output")))
    values = output.args[0] if isinstance(output.args[0], (tuple, list)) else [output.args[0]]
    names = [getattr(value, "name", None) for value in values]
    return [names.index(name) for name in specimen.outputs()]


# ---- how things are written


def constant(value):
    """The expression of a constant that is no container, or None."""
    if isinstance(value, (float, complex)):
        return f"{type(value).__name__}('{value!r}')"
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    plain = (torch.dtype, torch.layout, torch.memory_format, torch.Size, range)
    return repr(value) if isinstance(value, plain) else None


def spell(value):
    """The expression that stands for a target or a constant in a script; a template with {} for operators."""
    if isinstance(value, torch.fx.GraphModule) and value in _bodies:
        return _bodies[value][0]
    if is_higher_order(value):
        return f"torch.ops.higher_order.{value.name()}"
    if isinstance(value, enum.Enum):
        return f"{_name_of(type(value))}.{value.name}"
    if getattr(value, "__module__", "") == "_operator":
        # Reflected and augmented forms are written as calls: they have no form of their own.
        return magic_methods.get(value.__name__, f"operator.{value.__name__}")
    return constant(value) or _name_of(value)


def _name_of(value):
    """The dotted name under which an importable module, or the program, has a value."""
    if program_of(value) is not None:
        name = getattr(value, "__qualname__", "<")
        if "<" in name:
            raise NotWritable(f"{value!r} cannot be named in a script: it is made inside of another function")
        return f"program.{name}"
    for how in (_get_qualified_name, lambda value: f"{value.__module__}.{value.__qualname__}"):
        with contextlib.suppress(Exception):
            if pkgutil.resolve_name(how(value)) is value:
                return how(value).removeprefix("builtins.")
    raise NotWritable(f"{value!r} cannot be named in a script: it is no attribute of an importable module")


@dataclasses.dataclass
class Text:
    """A specimen as Python."""

    parameters: list
    body: str
    modules: list  # to import
    functions: list  # (name, parameters, body) of the functions that it calls, those that others need first
    program: str | None  # the program's own file, if something of it is needed


def text_of(specimen):
    called, functions, needed = [], [], set()

    def spelled(value):
        text = spell(value)
        if isinstance(value, torch.fx.GraphModule) and value not in called:
            called.append(value)
        elif text.startswith("program."):
            needed.add(value.__module__)
        elif re.fullmatch(r"[A-Za-z_][\w.]*\.\w+", text) and text.partition(".")[0] not in _PREFIXES:
            needed.add(_importable(text))
        return text

    parameters, body = specimen.text(spelled)
    for _, target, *_ in specimen.calls():
        if isinstance(target, torch._ops.OpOverload):
            needed.add(_registrar(target))
        elif is_higher_order(target):
            needed.add(type(target).__module__)
    files = {name: program_file(name) for name in needed - {None, "torch._ops"}}
    modules, programs = {name for name, file in files.items() if file is None}, [*files.values()]
    for module in called:
        name, inner = _bodies[module]
        made = text_of(inner)
        functions += [f for f in [*made.functions, (name, made.parameters, made.body)] if f not in functions]
        modules.update(made.modules)
        programs.append(made.program)
    return Text(parameters, body, sorted(modules), functions, next(filter(None, programs), None))


def _importable(name):
    """The longest front part of a dotted name that is a module."""
    while name not in sys.modules and "." in name:
        name = name.rpartition(".")[0]
    return name


# ---- and back


def _operator_of(form):
    tree = ast.parse(form.format("a", "b"), mode="eval").body
    return type(tree.ops[0] if isinstance(tree, ast.Compare) else tree.op)


_FORMS = {
    name: form for name, form in magic_methods.items() if name not in ("getitem", "div")
}  # there is no operator.div
_OPERATORS = {_operator_of(form): getattr(operator, name) for name, form in _FORMS.items()} | {ast.Not: operator.not_}


class Reader:
    """Reads a function's statements into an FX graph, without running them."""

    def __init__(self, function, scope, path, lines, others, bodies, is_body=False):
        self.function, self.scope, self.path = function, scope, path
        self.others, self.bodies = others, bodies  # the script's other functions, and those read so far
        self.is_body = is_body
        self.graph = torch.fx.Graph()
        self.values = {}
        self.expressions = {}
        self.lines = lines
        self.user_line = ""  # from the comments between the statements

    def read(self):
        arguments = self.function.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
            self.fail(self.function, "forward takes plain parameters")
        for argument in arguments.args:
            if argument.arg != "self":
                self.values[argument.arg] = self.graph.placeholder(argument.arg)
        for statement in self.function.body:
            above = self.lines[statement.lineno - 2].strip()
            if above.startswith("# "):
                self.user_line = above[2:]
            if isinstance(statement, ast.Return):
                made = self.value(statement.value)
                self.graph.output(made if isinstance(made, tuple) or self.is_body else (made,))
                return self.graph
            self.statement(statement)
        self.fail(self.function, "forward returns nothing")

    def fail(self, node, reason):
        raise ScriptError(f"{self.path}, line {node.lineno}: {reason}")

    def statement(self, statement):
        if isinstance(statement, ast.Expr):
            self.value(statement.value)  # a docstring is a constant
            return
        if isinstance(statement, ast.Pass):
            return
        plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1
        if not plain or not isinstance(statement.targets[0], ast.Name):
            self.fail(statement, "expected `name = call(...)`: one call a line")
        name = statement.targets[0].id
        self.values[name] = self.value(statement.value, name)

    def make(self, name, op, target, args, kwargs=None):
        # Names stay as they are in the script: they are how values are known.
        node = self.graph.create_node(op, target, tuple(args), kwargs or {}, name=name)
        node.meta["user_line"] = self.user_line
        return node

    def value(self, node, name=None):
        """A constant, a container, or an FX node that is made here."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return self.name(node)
            case ast.Tuple():
                return tuple(self.value(e) for e in node.elts)
            case ast.List():
                return [self.value(e) for e in node.elts]
            case ast.Dict():
                return {self.value(k): self.value(v) for k, v in zip(node.keys, node.values, strict=True)}
            case ast.Slice():
                return slice(*(None if p is None else self.value(p) for p in (node.lower, node.upper, node.step)))
            case ast.Call():
                return self.call(node, name)
            case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]) if type(op) in _OPERATORS:
                return self.operate(_OPERATORS[type(op)], [left, right], name)
            case ast.UnaryOp(op, operand):
                return self.operate(_OPERATORS[type(op)], [operand], name)
            case ast.Subscript(value, index):
                return self.operate(operator.getitem, [value, index], name)
            case ast.Attribute() if self.is_outside(node):
                return self.outside(node)
            case ast.Attribute(value, attribute):
                return self.operate(getattr, [value, ast.Constant(attribute)], name)
        self.fail(node, f"{ast.unparse(node)!r} is no call, operator or constant")

    def name(self, node):
        if node.id in self.values:
            return self.values[node.id]
        return self.body(node.id) if node.id in self.others else self.outside(node)

    def body(self, name):
        """A function of the script that is an argument: the body of a higher-order operator."""
        if name not in self.bodies:
            reader = Reader(self.others[name], self.scope, self.path, self.lines, self.others, self.bodies, True)
            specimen = Specimen.from_fx(reader.read(), describe, True)
            self.bodies[name] = _known_body(specimen.to_fx(name), name, specimen)
        return self.bodies[name]

    def outside(self, node):
        """An expression over the script's globals."""
        text = ast.unparse(node)
        if text not in self.expressions:
            try:
                self.expressions[text] = eval(compile(ast.Expression(node), self.path, "eval"), self.scope)
            except Exception as error:
                self.fail(node, f"{text}: {type(error).__name__}: {error}")
        return self.expressions[text]

    def is_outside(self, node):
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id not in self.values

    def operate(self, function, operands, name):
        operands = [self.value(operand) for operand in operands]
        if not self.holds_node(operands):
            return function(*operands)  # -1, 2 ** 3
        return self.make(name, "call_function", function, operands)

    def holds_node(self, value):
        found = []
        torch.fx.node.map_arg(value, found.append)
        return bool(found)

    def call(self, node, name):
        args = [self.value(a) for a in node.args if not isinstance(a, ast.Starred)]
        if len(args) != len(node.args) or any(k.arg is None for k in node.keywords):
            self.fail(node, "starred arguments are not read")
        kwargs = {k.arg: self.value(k.value) for k in node.keywords}
        if isinstance(node.func, ast.Attribute) and not self.is_outside(node.func):
            return self.make(name, "call_method", node.func.attr, [self.value(node.func.value), *args], kwargs)
        target = self.outside(node.func)
        if target in (float, complex, slice, range, torch.device, torch.Size) and (
            target is slice or not self.holds_node([args, kwargs])
        ):
            return target(*args, **kwargs)
        if not callable(target):
            self.fail(node, f"{ast.unparse(node.func)} cannot be called")
        return self.make(name, "call_function", target, args, kwargs)


def read_forward(source, scope, path):
    """The specimen of the function `forward` in a script's text."""
    try:
        tree = ast.parse(source, path)
    except SyntaxError as error:
        raise ScriptError(f"{path}, line {error.lineno}: {error.msg}") from None
    functions = {s.name: s for s in tree.body if isinstance(s, ast.FunctionDef)}
    if "forward" not in functions:
        raise ScriptError(f"{path}: there is no function `forward` in it")
    graph = Reader(functions["forward"], scope, path, source.splitlines(), functions, {}).read()
    return Specimen.from_fx(graph, describe)
