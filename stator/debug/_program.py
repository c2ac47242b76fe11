"""What scripts take from a program's own file: its definitions, not what it does.

A script may need a function, an operator or a backend that the program defines. Its file is not run for that: of its
statements only imports, functions, classes and constants are executed, and of those, one that fails is left out. What
functions read of the program's computed values (`scale = float(sys.argv[1])`) is written into the script when that is
made, since only then it is known.
"""

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


class Missing:
    """Stands for a default value that could not be computed here."""

    def __init__(self, why):
        self.why = why

    def __repr__(self):
        return f"<not known: {self.why}>"


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
    values = values or {}
    path = os.path.abspath(path)
    if not os.path.exists(path):
        raise ScriptError(f"functions of {path} are needed, and there is no such file")
    known = PROGRAM + hashlib.sha256(path.encode()).hexdigest()[:16]
    if known not in sys.modules:
        sys.modules[known] = _definitions_of(path, known, values)
    module = sys.modules[known]
    module.__dict__.update(values)
    for name, (positional, keyword) in (defaults or {}).items():
        if isinstance(module.__dict__.get(name), types.FunctionType):
            module.__dict__[name].__defaults__, module.__dict__[name].__kwdefaults__ = positional, keyword
    return module


def _parsed(path):
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read(), path)


def _assigned(statement):
    """The names that a statement of a module gives values to."""
    return [
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del))
    ]


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _computes(statement):
    return any(isinstance(node, (ast.Call, ast.Await)) for node in ast.walk(statement))


def _is_definition(statement):
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return not _computes(statement)
    return isinstance(statement, (ast.Import, ast.ImportFrom, *_DEFINITIONS))


def _definitions_of(path, name, values):
    module = types.ModuleType(name)
    module.__file__ = path
    module.__dict__.update(values)
    sys.path.insert(0, os.path.dirname(path))
    try:
        for statement in _parsed(path).body:
            if _is_definition(statement) and not set(_assigned(statement)) & values.keys():
                _execute(statement, path, module.__dict__)
    finally:
        sys.path.pop(0)
    return module


def _execute(statement, path, scope):
    def run(tree):
        exec(compile(ast.fix_missing_locations(ast.Module([tree], [])), path, "exec"), scope)

    try:
        run(statement)
    except Exception:
        # It computes something of what the program had and what is not here: the rest of it can still be used.
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            run(_with_known_head(statement, path, scope))
        elif isinstance(statement, ast.ClassDef):
            statement.body = [s for s in statement.body if isinstance(s, _DEFINITIONS) or not _computes(s)] or [
                ast.Pass()
            ]
            with contextlib.suppress(Exception):
                run(statement)


def _with_known_head(function, path, scope):
    """The function without the decorators and annotations that cannot be computed; with Missing for such defaults."""

    def error_of(expression):
        try:
            eval(compile(ast.Expression(expression), path, "eval"), scope)
        except Exception as error:
            return error
        return None

    def known(default):
        error = error_of(default) if default is not None else None
        if error is None:
            return default
        name = f"_missing_{len(scope)}"
        scope[name] = Missing(f"{ast.unparse(default)}: {type(error).__name__}: {error}")
        return ast.copy_location(ast.Name(name, ast.Load()), default)

    arguments = function.args
    arguments.defaults = [known(default) for default in arguments.defaults]
    arguments.kw_defaults = [known(default) for default in arguments.kw_defaults]
    function.decorator_list = [each for each in function.decorator_list if error_of(each) is None]
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    for argument in every:
        if argument is not None and argument.annotation is not None and error_of(argument.annotation) is not None:
            argument.annotation = None
    if function.returns is not None and error_of(function.returns) is not None:
        function.returns = None
    return function


def computed_values(path, writable):
    """What a program has computed and its functions read, as definitions() takes it: (values, defaults), as far as
    writable(value) says that a script can hold it."""
    module = next((m for m in _running(path)), None)
    if module is None or not os.path.exists(path):
        return {}, {}
    body = _parsed(path).body
    read = {
        node.id
        for statement in body
        if isinstance(statement, _DEFINITIONS)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    names = {name for statement in body if not isinstance(statement, _DEFINITIONS) for name in _assigned(statement)}
    found = {}
    for name in sorted(names & read & module.__dict__.keys()):
        value = module.__dict__[name]
        if writable(value) and not _is_written(body, name, value):
            found[name] = value
    return found, _computed_defaults(body, module, writable)


def _computed_defaults(body, module, writable):
    found = {}
    for statement in body:
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        function = module.__dict__.get(statement.name)
        expressions = [*statement.args.defaults, *[d for d in statement.args.kw_defaults if d is not None]]
        if not isinstance(function, types.FunctionType) or all(isinstance(e, ast.Constant) for e in expressions):
            continue
        defaults = function.__defaults__, function.__kwdefaults__
        if writable(defaults):
            found[statement.name] = defaults
    return found


def _running(path):
    """The modules that were made from a file: the program itself, or its definitions."""
    for name in ("__main__", *[n for n in list(sys.modules) if n.startswith(PROGRAM)]):
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if file is not None and os.path.abspath(file) == path:
            yield module


def _is_written(body, name, value):
    """Whether a constant of the file says the same."""
    assigned = [statement for statement in body if name in _assigned(statement)]
    if len(assigned) != 1 or not isinstance(assigned[0], ast.Assign):
        return False
    try:
        constant = ast.literal_eval(assigned[0].value)
        return type(constant) is type(value) and bool(constant == value)
    except ValueError:
        return False
