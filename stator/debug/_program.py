"""What scripts take from a program's own file: its definitions, not what it does.

A script may need a function, an operator or a backend that the program defines. Its file is not run for that: of its
statements only imports, functions, classes and constants are executed, and of those, one that fails is left out. What
functions read of the program's computed values (`scale = float(sys.argv[1])`) is written into the script when that is
made, since only then it is known.
"""

import __future__

import ast
import contextlib
import hashlib
import os
import sys
import types

PROGRAM = "_stator_program_"


class ScriptError(Exception):
    """A script that cannot be written or read; the message says where and why."""


class NotWritable(ScriptError):
    """A graph holds something that no script can hold."""


def program_file(name):
    """The program's own file, if a module of that name is the program."""
    if name != "__main__" and not name.startswith(PROGRAM):
        return None
    file = getattr(sys.modules.get(name), "__file__", None)
    return os.path.abspath(file) if file is not None else None


def program_of(value):
    """The program's own file, if that is where a value is defined."""
    return program_file(getattr(value, "__module__", None) or "")


def definitions(path, values=None, defaults=None):
    """The module that stands for a program's own file, in scripts that use its functions, operators and backends.

    values: what the program had computed, by name. defaults: the same for functions: (__defaults__, __kwdefaults__).
    """
    values, defaults, path = values or {}, defaults or {}, os.path.abspath(path)
    if not os.path.exists(path):
        raise ScriptError(f"functions of {path} are needed, and there is no such file")
    known = PROGRAM + hashlib.sha256(path.encode()).hexdigest()[:16]
    if known not in sys.modules:
        sys.modules[known] = _definitions_of(path, known, values, defaults)
    module = sys.modules[known]
    module.__dict__.update(values)
    for name, (positional, keyword) in defaults.items():
        if isinstance(module.__dict__.get(name), types.FunctionType):
            module.__dict__[name].__defaults__, module.__dict__[name].__kwdefaults__ = positional, keyword
    return module


def _parsed(path):
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read(), path).body


def _names(tree, *contexts):
    """The names in a statement that are read (ast.Load), or given values (ast.Store)."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, contexts)}


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _is_definition(statement):
    """Assignments that call nothing are plain constants."""
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return not any(isinstance(node, (ast.Call, ast.Await)) for node in ast.walk(statement))
    return isinstance(statement, (ast.Import, ast.ImportFrom, ast.ClassDef, *_FUNCTIONS))


def _definitions_of(path, name, values, defaults):
    module = types.ModuleType(name)
    module.__file__ = path
    module.__dict__.update(values)
    sys.path.insert(0, os.path.dirname(path))
    try:
        for statement in _parsed(path):
            if isinstance(statement, _FUNCTIONS) and statement.name in defaults:
                _without_defaults(statement.args)
            known = isinstance(statement, (ast.Assign, ast.AnnAssign)) and _names(statement, ast.Store) & values.keys()
            if _is_definition(statement) and not known:
                _execute(statement, path, module.__dict__)
    finally:
        sys.path.pop(0)
    return module


def _execute(statement, path, scope):
    for flags in (0, __future__.annotations.compiler_flag):  # annotations may name what the program had computed
        with contextlib.suppress(Exception):
            exec(compile(ast.Module([statement], []), path, "exec", flags), scope)
            return


def _without_defaults(arguments):
    """They are known, and are not computed again."""
    for expressions in (arguments.defaults, arguments.kw_defaults):
        expressions[:] = [e and ast.copy_location(ast.Constant(None), e) for e in expressions]


def computed_values(path, writable):
    """What a program has computed and its functions read, as definitions() takes it: (values, defaults), as far as
    writable(value) says that a script can hold it."""
    modules = [name for name in list(sys.modules) if program_file(name) == path]
    if not modules or not os.path.exists(path):
        return {}, {}
    held, body = vars(sys.modules[modules[0]]), _parsed(path)
    read, computed = set(), set()
    for statement in body:
        if isinstance(statement, (ast.ClassDef, *_FUNCTIONS)):
            read |= _names(statement, ast.Load)
        elif not _is_definition(statement):
            computed |= _names(statement, ast.Store)
    values = {name: held[name] for name in sorted(computed & read & held.keys()) if writable(held[name])}
    defaults = {}
    for statement in body:
        function = held.get(statement.name) if isinstance(statement, _FUNCTIONS) else None
        if isinstance(function, types.FunctionType) and (function.__defaults__ or function.__kwdefaults__):
            expressions = [*statement.args.defaults, *statement.args.kw_defaults]
            given = function.__defaults__, function.__kwdefaults__
            if not all(isinstance(e, (ast.Constant, type(None))) for e in expressions) and writable(given):
                defaults[statement.name] = given
    return values, defaults
