"""Methods of `object` that look into an instance."""

import copyreg
import operator


def _slot_names(cls):
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


def reduce_ex(self, protocol):
    cls = type(self)
    protocol = operator.index(protocol)
    if cls.__reduce__ is not object.__reduce__:
        return self.__reduce__()
    if protocol < 2:
        return copyreg._reduce_ex(self, protocol)
    if hasattr(cls, "__getnewargs_ex__"):
        args, kwargs = self.__getnewargs_ex__()
    elif hasattr(cls, "__getnewargs__"):
        args, kwargs = self.__getnewargs__(), None
    else:
        args, kwargs = (), None
    state = self.__getstate__()
    items = iter(self) if isinstance(self, list) else None
    pairs = iter(self.items()) if isinstance(self, dict) else None
    if kwargs:
        return copyreg.__newobj_ex__, (cls, args, kwargs), state, items, pairs
    return copyreg.__newobj__, (cls, *args), state, items, pairs


def newobj(cls, *args):
    return cls.__new__(cls, *args)
