"""Compiled modules. A compiled module is still the module (docs/MODULES.md gives the reasons).

It is an object of a class made for the purpose, a subclass of the module's class, and it has the very same `__dict__`
as the module: parameters, buffers, submodules, hooks and plain attributes are shared, whichever of the two they are
read or written through.
"""

import abc
import copy
import inspect
import threading
import weakref
from typing import Any

from torch import nn

from stator import _core

# module class -> weak reference to its compiled class
_classes: weakref.WeakKeyDictionary[type, Any] = weakref.WeakKeyDictionary()
_lock = threading.RLock()
# object's own accessors, past the properties of the same names below.
_set_class = object.__dict__["__class__"].__set__


class CompiledModule(nn.Module, _core.CompiledModuleBase):
    """What stator.compile(module) returns; also known as stator.OptimizedModule."""

    # The base's slots are not part of __dict__, so they are the compiled module's own. `__call__` is what a call of the
    # module runs, compiled; it lies where CPython calls it straight from the object.
    __slots__ = ()
    __call__ = _core.CompiledModuleBase.__call__
    _orig_mod = _core.CompiledModuleBase._orig_mod
    _stator_compile = _core.CompiledModuleBase._stator_compile

    def __init_subclass__(cls, **kwargs):
        pass  # a compiled class is no event for a registry that the user keeps in __init_subclass__

    def __new__(cls, *args, **kwargs):
        # `type(self)(...)` in a method of the module means its class.
        base = cls.__mro__[2] if len(cls.__mro__) > 2 else None
        if cls is CompiledModule or base is None:
            raise TypeError("compiled modules are made by stator.compile(module)")
        return base(*args, **kwargs)

    @property
    def __class__(self):
        return type(self._orig_mod)

    @__class__.setter
    def __class__(self, cls):
        self._orig_mod.__class__ = cls
        _follow_class(self)

    @property
    def forward(self):
        """The module's forward, compiled, without hooks."""
        return self._stator_compile(self._orig_mod.forward)

    @forward.setter
    def forward(self, function):
        self._orig_mod.forward = function

    @forward.deleter
    def forward(self):
        del self._orig_mod.forward

    @property
    def _torchdynamo_orig_callable(self):
        """TorchDynamo, asked to compile what is compiled, takes what is inside."""
        return self._orig_mod

    @property
    def _torchdynamo_wrapper_id(self):
        return id(self)

    @property
    def dynamo_ctx(self):
        """As TorchDynamo has it: compiles other functions as this module is compiled."""
        return self._stator_compile

    @property
    def _compile_kwargs(self):
        """The arguments of the compile call. Lightning takes them down itself where it finds torch.compile, and looks
        for them here."""
        settings = getattr(self._stator_compile, "settings", None)  # a disabled module has none
        given = settings.arguments if settings is not None else {"disable": True}
        return self.__dict__.get("_compile_kwargs") or {
            name: value for name, value in given.items() if value is not None
        }

    @_compile_kwargs.setter
    def _compile_kwargs(self, given):
        self.__dict__["_compile_kwargs"] = given

    def get_compiler_config(self):
        """The configuration that the backend compiles with: a dict of inductor's settings, None for other backends."""
        from stator import _compile

        return _compile.compiler_config(self._stator_compile)

    def __setattr__(self, name, value):
        # nn.Module would make it a submodule of the module itself. Libraries put the module back that they found here,
        # or what is inside.
        if name == "_orig_mod":
            _share(self, value)
        else:
            super().__setattr__(name, value)

    @property
    def __signature__(self):
        return inspect.signature(self._orig_mod)

    def __getattr__(self, name):
        # Something replaced the module's class (parametrizations do): what is not found may be there.
        if type(self).__mro__[2] is not type(self._orig_mod):
            _follow_class(self)
            return getattr(self, name)
        return super().__getattr__(name)

    def __reduce_ex__(self, protocol):
        return wrap, (self._orig_mod, self._stator_compile)

    def __copy__(self):
        return wrap(copy.copy(self._orig_mod), self._stator_compile)

    def __deepcopy__(self, memo):
        return wrap(copy.deepcopy(self._orig_mod, memo), self._stator_compile)

    def _replicate_for_data_parallel(self):
        return wrap(self._orig_mod._replicate_for_data_parallel(), self._stator_compile)


OptimizedModule = CompiledModule


def _compiled_class(base):
    with _lock:
        known = _classes.get(base)
        made = known() if known is not None else None
        if made is None:
            made = _make_class(base)
            _classes[base] = weakref.ref(made)
        return made


def _make_class(base):
    names = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "__slots__": (),
    }
    meta = type(base)
    # Past a metaclass of the user's, which may register what it makes; ABCMeta has to set up its own part.
    make = abc.ABCMeta.__new__ if issubclass(meta, abc.ABCMeta) else type.__new__
    try:
        made = make(meta, base.__name__, (CompiledModule, base), names)
        _core.call_directly(made)
        return made
    except TypeError as error:
        raise TypeError(
            f"{base.__qualname__} has __slots__ or another layout of its own, which a compiled module cannot share: use "
            "stator.compile_module_inplace"
        ) from error


def _follow_class(compiled):
    """Makes the compiled module's real class the one that belongs to the module's present class."""
    _set_class(compiled, _compiled_class(type(compiled._orig_mod)))


def wrap(module, compile_callable):
    """The compiled module of `module`; compile_callable(fn) compiles with the settings that it is to have."""
    compiled = _core.CompiledModuleBase.__new__(_compiled_class(type(module)))
    CompiledModule._stator_compile.__set__(compiled, compile_callable)
    _share(compiled, module)
    return compiled


def _share(compiled, module):
    """Makes it the compiled module of this module."""
    object.__setattr__(compiled, "__dict__", module.__dict__)
    CompiledModule._orig_mod.__set__(compiled, module)
    _follow_class(compiled)
    CompiledModule.__call__.__get__(compiled)  # compiles the call


def compile_in_place(module, compile_callable):
    """Compiles calls of this very object, as nn.Module.compile() does."""
    module._compiled_call_impl = compile_callable(module._call_impl)


def is_compiled(value):
    return issubclass(type(value), CompiledModule)


def unwrap(value):
    """The function or module that a compiled one was made from, through any number of layers."""
    while True:
        if is_compiled(value):
            value = value._orig_mod
        elif type(value) is _core.CompiledFunction:
            value = value.__wrapped__
        else:
            return value
