"""Methods of `object` that look into an instance."""

import collections
import copyreg
import operator
import struct

_WORD = struct.calcsize("P")


def _slot_names(cls):
    known = cls.__dict__.get("__slotnames__")
    if known is not None:
        return list(known)
    names = []
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        if isinstance(slots, str):
            slots = (slots,)
        for name in slots:
            if name in ("__dict__", "__weakref__"):
                continue
            if name.startswith("__") and not name.endswith("__"):
                stripped = base.__name__.lstrip("_")
                if stripped:
                    name = "_" + stripped + name
            names.append(name)
    return names


def getstate(self):
    state = getattr(self, "__dict__", None)
    if not state:
        state = None
    slots = {}
    for name in _slot_names(type(self)):
        try:
            slots[name] = getattr(self, name)
        except AttributeError:
            pass
    if slots:
        return state, slots
    return state


def _has_hidden_state(cls):
    """Instances have fields in C that neither their dict nor their slots show."""
    seen = object.__basicsize__ + _WORD * len(_slot_names(cls))
    if cls.__dictoffset__ != 0:
        seen += _WORD
    if cls.__weakrefoffset__ != 0:
        seen += _WORD
    return cls.__itemsize__ != 0 or cls.__basicsize__ > seen


def _name_in_c(cls):
    heap = cls.__flags__ & (1 << 9)
    name = cls.__name__ if heap or cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"
    made_in_c_alone = not heap and cls is not object and cls.__new__ is object.__new__
    return f"{name} objects" if cls.__itemsize__ != 0 and not made_in_c_alone else f"'{name}' object"


def reduce_ex(self, protocol):
    cls = type(self)
    protocol = operator.index(protocol)
    if cls is set or cls is frozenset:
        return cls, (list(self),), None
    if cls is collections.OrderedDict and not self.__dict__:
        return cls, (), None, None, iter(self.items())
    if cls.__reduce__ is not object.__reduce__:
        return self.__reduce__()
    if protocol < 2:
        return copyreg._reduce_ex(self, protocol)
    if hasattr(cls, "__getnewargs_ex__"):
        both = self.__getnewargs_ex__()
        if not isinstance(both, tuple):
            raise TypeError(f"__getnewargs_ex__ should return a tuple, not '{type(both).__name__}'")
        if len(both) != 2:
            raise ValueError(f"__getnewargs_ex__ should return a tuple of length 2, not {len(both)}")
        args, kwargs = both
        for part, item, kind in (("first", args, tuple), ("second", kwargs, dict)):
            if not isinstance(item, kind):
                raise TypeError(
                    f"{part} item of the tuple returned by __getnewargs_ex__ must be a {kind.__name__}, "
                    f"not '{type(item).__name__}'"
                )
    elif hasattr(cls, "__getnewargs__"):
        args, kwargs = self.__getnewargs__(), None
        if not isinstance(args, tuple):
            raise TypeError(f"__getnewargs__ should return a tuple, not '{type(args).__name__}'")
    else:
        args, kwargs = (), None
        if not isinstance(self, (list, dict)) and cls.__getstate__ is object.__getstate__ and _has_hidden_state(cls):
            raise TypeError(f"cannot pickle {_name_in_c(cls)}")
    state = self.__getstate__()
    items = iter(self) if isinstance(self, list) else None
    pairs = iter(self.items()) if isinstance(self, dict) else None
    if kwargs:
        return copyreg.__newobj_ex__, (cls, args, kwargs), state, items, pairs
    return copyreg.__newobj__, (cls, *args), state, items, pairs
