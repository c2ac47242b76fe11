"""The last tier of shape inference: one run of a call on FakeTensors made from facts.

A tensor's facts travel in both directions as one tuple, whose order src/tensor/infer_fallback.cpp shares:
(sizes, strides, dtype, device, requires_grad, is_leaf, is_conj, is_neg, is_inference, is_parameter, offset,
storage_bytes, storage).
"""

import collections
import contextlib
import functools
import itertools
import logging
import operator
import traceback
import types
import warnings

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from stator import _fake_mode, config
from stator._fake_watch import Watch, storages_of

# Numbers of shapes::Status.
OK, DATA_DEPENDENT, DYNAMIC_SHAPE, UNSUPPORTED, RAISES, WARNS = range(6)
# Numbers of shapes::Structure.
SINGLE, TUPLE, LIST, NAMED, NESTED = range(5)

_mode = None


_ragged = itertools.count(1 << 40)


@functools.cache
def _ragged_node():
    from torch.nested._internal.nested_int import NestedIntNode

    class RaggedNode(NestedIntNode):
        """Torch's takes ints alone as factors; here they may be symbols. Two are equal if their factors are, which is a
        condition on the symbols."""

        def mul(self, other):
            factor = other.constant_int() if other.is_constant() else torch.SymInt(other)
            return RaggedNode(self.t_id, self.coeff * factor)

        def eq(self, other):
            return torch._C._get_constant_bool_symnode(self._equals(other))

        def ne(self, other):
            return torch._C._get_constant_bool_symnode(not self._equals(other))

        def _equals(self, other):
            return isinstance(other, NestedIntNode) and self.t_id == other.t_id and bool(self.coeff == other.coeff)

    return RaggedNode


def ragged_size(*, nt_tensor_id=None):
    return torch.SymInt(_ragged_node()(next(_ragged) if nt_tensor_id is None else nt_tensor_id, 1))


def mode():
    """The one FakeTensorMode of the fallback: static sizes, no ShapeEnv."""
    global _mode
    if _mode is None:
        _mode = _fake_mode.make()
        # Ragged sizes of nested tensors are what they are in eager: numbers that equal themselves alone. (Of the
        # instance: rules of higher-order operators ask for the very class.)
        _mode.create_symbolic_nested_int = ragged_size
    return _mode


class _MarkNonLeaf(torch.autograd.Function):
    """Gives a tensor a grad_fn in place, whatever its strides, so that it is no leaf."""

    @staticmethod
    def forward(ctx, target, weight):
        ctx.mark_dirty(target)
        return target

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def _is_fake_wrapper(tensor):
    """An instance of a wrapper class that consists of fakes of this mode."""
    if isinstance(tensor, FakeTensor):
        return tensor.fake_mode is mode()
    if not is_traceable_wrapper_subclass(tensor):
        return False
    inner = (getattr(tensor, name) for name in tensor.__tensor_flatten__()[0])
    return all(_is_fake_wrapper(value) for value in inner if isinstance(value, torch.Tensor))


def _lazy_view(tensor, is_conj, is_neg):
    """With the bits that say how its memory is to be read."""
    if is_conj:
        tensor = tensor.conj()
    return torch._neg_view(tensor) if is_neg else tensor


def _make_one(facts, storages):
    (sizes, strides, dtype, device, requires_grad, is_leaf, is_conj, is_neg) = facts[:8]
    (is_inference, is_parameter, offset, storage_bytes, storage) = facts[8:]
    with torch.inference_mode() if is_inference else contextlib.nullcontext(), torch.no_grad():
        if storage not in storages:
            bytes_ = torch.empty(storage_bytes, dtype=torch.uint8, device="meta")
            storages[storage] = bytes_.untyped_storage()
        elem = torch.empty(0, dtype=dtype, device="meta")
        elem.set_(storages[storage], offset, sizes, strides)
        fake = FakeTensor(mode(), elem, device)
    if requires_grad and not is_leaf:
        with torch.enable_grad(), mode():
            weight = torch.empty((), dtype=dtype, device=device, requires_grad=True)
            fake = _lazy_view(
                _MarkNonLeaf.apply(fake, weight), is_conj, is_neg
            )  # a view made under no_grad takes no mark
    else:
        with torch.inference_mode(is_inference):  # what inference mode made takes the flag there alone
            with torch.no_grad():
                fake = _lazy_view(fake, is_conj, is_neg)
            if requires_grad:
                fake.requires_grad_()
    if is_parameter:
        fake._is_param = True
    return fake


def _forget_constants():
    """The mode notes each constant that it meets, for as long as it lives itself; those of earlier calls are gone."""
    constants = mode().fake_tensor_converter.constant_storage_mapping
    for storage in [storage for storage, fakes in constants.items() if all(fake() is None for fake in fakes)]:
        del constants[storage]


def make(all_facts):
    """FakeTensors for the tensor arguments of one call; those with one storage number share a storage. Wrappers are
    there already."""
    _forget_constants()
    storages = {}
    with torch.inference_mode(False):
        return [facts if isinstance(facts, torch.Tensor) else _make_one(facts, storages) for facts in all_facts]


def symbols(hints, unbacked, data_sizes):
    """s0, s1 ... of a capture in a ShapeEnv of their own, for one symbolic run; rows (number, low, high) of those
    without a value. `data_sizes`: what depends on data may be a symbol, whatever the settings say."""
    from stator import _symbols

    return _symbols.for_one_run(hints, unbacked, data_sizes)


def _set_apart(all_facts):
    """Numbers of the tensors that lie in memory of others or behind its beginning: fakes with symbolic sizes each have
    memory of their own."""
    shared = collections.Counter(facts[12] for facts in all_facts)
    return {number for number, facts in enumerate(all_facts) if shared[facts[12]] > 1 or facts[10] != 0}


def _lies_elsewhere(env, mutates, written, aliases):
    """Whether the run wrote to one of those, or gave a view of one: which memory that is, is known only of tensors as
    they are."""
    if mutates and not written and env.set_apart:
        return True  # to whatever
    return not env.set_apart.isdisjoint(written) or not env.set_apart.isdisjoint(aliases)


def make_symbolic(all_facts, env, nonzeros):
    """FakeTensors with SymInts; None where tensors are more than their sizes say. Each gets memory of its own, which
    `env` is told.

    nonzeros: (number, text) of tensors of which is known how many elements are not 0.
    """
    env.set_apart = _set_apart(all_facts)
    # A write to one of them is known by its number, and said of the first that lies in the same memory, as `call` does.
    firsts = {}
    env.first_of_memory = [firsts.setdefault(facts[12], number) for number, facts in enumerate(all_facts)]
    fakes = []
    for facts in all_facts:
        (sizes, strides, dtype, device, requires_grad, is_leaf, is_conj, is_neg, is_inference, is_parameter) = facts[
            :10
        ]
        if requires_grad and not is_leaf and not (dtype.is_floating_point or dtype.is_complex):
            return None
        with torch.inference_mode(is_inference):
            with torch.no_grad():
                elem = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
                fake = FakeTensor(env.mode, elem, device)
                if is_leaf or not requires_grad:
                    fake = _lazy_view(fake, is_conj, is_neg)
            if requires_grad and is_leaf:
                fake.requires_grad_()
        if requires_grad and not is_leaf:
            with torch.inference_mode(False), torch.enable_grad(), env.mode:
                weight = torch.empty((), dtype=dtype, device=device, requires_grad=True)
                fake = _lazy_view(_MarkNonLeaf.apply(fake, weight), is_conj, is_neg)
        if is_parameter:
            fake._is_param = True
        fakes.append(fake)
    for number, text in nonzeros:
        fakes[number].nonzero_memo = env.value(text)
    return fakes


def call_symbolic(target, args, kwargs, fakes, state, env, by_python):
    """As call, with sizes as text; the conditions that the run has decided; ranges (low, high) of the sizes that it
    could not know, which are the next symbols; and (number, text) of arguments of which is known now how many elements
    are not 0. None: it has to be done with numbers."""
    global _mode
    before, _mode = _mode, env.mode
    try:
        with enable_python_dispatcher() if by_python else contextlib.nullcontext():
            answer = call(target, args, kwargs, fakes, state)
        if answer[0] in (DATA_DEPENDENT, DYNAMIC_SHAPE, WARNS):
            return answer, [], [], []
        if answer[0] != OK:
            return None
        status, structure, detail, rows, changed, mutates, random, written = answer
        if any(len(row) == 1 and env.is_new(row[0]) for row in rows):
            return (DATA_DEPENDENT, "gives a number", None), [], [], []
        aliases = [row[2] for row in rows if len(row) > 1] + [number for number, _ in changed]
        if _lies_elsewhere(env, mutates and not written, (), aliases):
            return None
        written = tuple(sorted({env.first_of_memory[number] for number in written}))
        changed = [(number, env.facts(facts)) for number, facts in changed]
        rows = [row if len(row) == 1 else (env.facts(row[0]), *row[1:]) for row in rows]
        conditions, found = env.new_conditions(), env.found()
        sizes = {size for row in rows if len(row) > 1 for size in row[0][0] if isinstance(size, str)}
        if not sizes.issuperset(name for name, _ in found):
            return _OF_NO_RESULT, [], [], []
        counted = [(number, env.name(fake.nonzero_memo)) for number, fake in enumerate(fakes)]
        counted = [row for row in counted if row[1] is not None]
        answer = status, structure, detail, rows, changed, mutates, random, written
        return answer, conditions, [span for _, span in found], counted
    except env.unknown:
        return None
    finally:
        _mode = before


# It cannot be had from the graph either.
_OF_NO_RESULT = DYNAMIC_SHAPE, "a size that depends on data, and is that of no result", None


def make_wrapped(all_facts, env):
    """As make_symbolic, for a call with wrappers, which are there already."""
    numbers = [number for number, facts in enumerate(all_facts) if not isinstance(facts, torch.Tensor)]
    made = make_symbolic([all_facts[number] for number in numbers], env, [])
    if made is None:
        return None
    env.set_apart = {numbers[number] for number in env.set_apart}
    made = iter(made)
    return [facts if isinstance(facts, torch.Tensor) else next(made) for facts in all_facts]


def call_wrapped(target, args, kwargs, fakes, state, env):
    """As call, with sizes as text; the conditions that the run has decided; and the ranges of sizes that it could not
    know, as of call_symbolic."""
    global _mode
    before, _mode = _mode, env.mode
    try:
        with env.shape_env.ignore_fresh_unbacked_symbols():
            answer = call(target, args, kwargs, fakes, state)
        if answer[0] != OK:
            return answer, [], []
        status, structure, detail, rows, changed, mutates, random, written = answer
        if _lies_elsewhere(env, mutates, written, [row[2] for row in rows if len(row) > 2]):
            return (UNSUPPORTED, "which memory a result lies in is not known", None), [], []
        if any(len(row) == 1 and not _is_ragged(row[0]) and env.is_new(row[0]) for row in rows):
            return (DATA_DEPENDENT, "gives a number", None), [], []
        texts = []
        for row in rows:
            if len(row) > 1:
                texts.append((env.facts(row[0]), *row[1:]))
            elif isinstance(row[0], torch.SymInt) and not _is_ragged(row[0]):
                texts.append((str(env._text(row[0])), None))
            else:
                texts.append(row)
        changed = [(index, env.facts(facts)) for index, facts in changed]
        conditions, found = env.new_conditions(), env.found()
        env._known = len(env.shape_env.guards)
        sizes = {size for row in texts if len(row) > 2 for size in row[0][0] if isinstance(size, str)}
        if not sizes.issuperset(name for name, _ in found):
            return _OF_NO_RESULT, [], []
        env.take_found()
        answer = status, structure, detail, texts, changed, mutates, random, written
        return answer, conditions, [span for _, span in found]
    except env.unknown:
        return (UNSUPPORTED, "a size that cannot be said in symbols", None), [], []
    finally:
        env.forget_found()
        _mode = before


def wrapper_facts(fake):
    env = getattr(_mode_of(fake), "_stator_env", None)
    return facts_of(fake) if env is None else env.facts(facts_of(fake))


def _mode_of(fake):
    while not isinstance(fake, FakeTensor):
        inner = (getattr(fake, name) for name in fake.__tensor_flatten__()[0])
        fake = next(value for value in inner if isinstance(value, torch.Tensor))
    return fake.fake_mode


def _number(size):
    """A ragged size is none."""
    return -1 if _is_ragged(size) else size


def _wrapper_facts(tensor):
    try:
        storage = tensor.storage_offset(), tensor.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):
        storage = 0, 0
    return (
        tuple(map(_number, tensor.shape)),
        tuple(map(_number, tensor.stride())),
        tensor.dtype,
        tensor.device,
        tensor.requires_grad,
        tensor.is_leaf,
        False,
        False,
        tensor.is_inference(),
        bool(getattr(tensor, "_is_param", False)),
        *storage,
        0,
    )


def facts_of(tensor, storage=0):
    if not isinstance(tensor, FakeTensor):
        return _wrapper_facts(tensor)
    return (
        tuple(tensor.shape),
        tensor.stride(),
        tensor.dtype,
        tensor.device,
        tensor.requires_grad,
        tensor.is_leaf,
        tensor.is_conj(),
        tensor.is_neg(),
        tensor.is_inference(),
        bool(getattr(tensor, "_is_param", False)),
        tensor.storage_offset(),
        tensor.untyped_storage().nbytes(),
        storage,
    )


@contextlib.contextmanager
def _silence(heard):
    """What the op would say is said when the program runs it, not while it is only asked for its shape. `heard` gets
    its warnings."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
        heard += warned
    finally:
        log.disabled = before


@contextlib.contextmanager
def _under(state):
    """Sets the global state that the call would see."""
    (grad, inference, dtype, device, autocast_cpu, autocast_cuda, cpu_dtype, cuda_dtype) = state
    before = torch.get_default_dtype()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(inference))
        stack.enter_context(torch.set_grad_enabled(grad and not inference))
        if dtype is not before:
            torch.set_default_dtype(dtype)
            stack.callback(torch.set_default_dtype, before)
        stack.enter_context(torch.autocast("cpu", dtype=cpu_dtype, enabled=autocast_cpu))
        if autocast_cuda or torch.is_autocast_enabled("cuda"):
            stack.enter_context(torch.autocast("cuda", dtype=cuda_dtype, enabled=autocast_cuda))
        if device is not None:
            stack.enter_context(device)
        yield


def _is_ragged(value):
    """A size of a nested tensor that is no number: another nested tensor has another."""
    return isinstance(value, torch.SymInt) and value.node.is_nested_int()


def _has_symbols(value):
    if isinstance(value, (tuple, list)):
        return any(map(_has_symbols, value))
    return isinstance(value, torch.SymInt)


class _Outputs:
    """Flattens a result and finds out what each tensor in it shares with arguments and earlier outputs."""

    def __init__(self, fakes, storages):
        self.fakes = fakes
        self.storages = storages
        self.rows = []
        self.unknown = None
        self._seen = {}

    def add(self, value):
        """Appends one leaf; returns its index."""
        index = len(self.rows)
        if not isinstance(value, torch.Tensor):
            known = isinstance(value, _CONSTANTS) and not _has_symbols(value)
            if not known and not (isinstance(value, torch.SymInt) and (_is_ragged(value) or mode().shape_env)):
                self.unknown = type(value).__name__
            self.rows.append((value,))
            return index
        wrapper = None if isinstance(value, FakeTensor) else value
        if (value.layout is not torch.strided) if wrapper is None else not _is_fake_wrapper(wrapper):
            self.unknown = f"{type(value).__name__} of layout {value.layout}"
            self.rows.append((None,))
            return index
        if value.is_quantized:
            self.unknown = "a quantised tensor"
            self.rows.append((None,))
            return index
        same = next((i for i, fake in enumerate(self.fakes) if fake is value), -1)
        storages = storages_of(value)
        alias = same if same >= 0 else next((self.storages[one] for one in storages if one in self.storages), -1)
        alias_output = min(self._seen.setdefault(one, index) for one in storages) if alias < 0 else index
        self.rows.append((facts_of(value), same, alias, -1 if alias_output == index else alias_output, wrapper))
        return index

    def structure(self, value):
        if isinstance(value, (torch.Size, tuple)) and _has_symbols(value):
            for item in value:
                self.add(item)
            return (NAMED, torch.Size) if isinstance(value, torch.Size) else (TUPLE, None)
        flat = isinstance(value, (list, tuple)) and all(not isinstance(item, (list, tuple, dict)) for item in value)
        named = isinstance(value, tuple) and type(value) not in (tuple, torch.Size)
        if flat and (named or (type(value) in (tuple, list) and self._has_tensor(value))):
            for item in value:
                self.add(item)
            if named:
                return NAMED, type(value)
            return (TUPLE if type(value) is tuple else LIST), None
        if isinstance(value, (list, tuple, dict)) and self._has_tensor(value):
            return NESTED, self._skeleton(value)
        self.add(value)
        return SINGLE, None

    def _has_tensor(self, value):
        if isinstance(value, dict):
            value = value.values()
        elif not isinstance(value, (list, tuple)):
            return isinstance(value, torch.Tensor)
        return any(self._has_tensor(item) for item in value)

    def _skeleton(self, value):
        if type(value) is dict:
            return {key: self._skeleton(item) for key, item in value.items()}
        if type(value) in (tuple, list):
            return type(value)(self._skeleton(item) for item in value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._skeleton(item) for item in value))
        return self.add(value)


_CONSTANTS = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    torch.Size,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    tuple,
    list,
    type,
)


# Their functions are Python's, and warn of arguments: then their code is followed, so that the warning comes from the
# program's line.
_WARN_THEMSELVES = ("torch.nn.functional", "torch.functional")


GETITEM, ITEM, NONZERO, WHERE = operator.getitem, torch.Tensor.item, torch.Tensor.nonzero, torch.where


@functools.cache
def _tagged(target):
    """(status, operator, whether it reads a single element) that torch's tags give for every form of the function, or
    None."""
    name = target.__name__
    if target is torch.Tensor.tolist:  # has no operator
        return DATA_DEPENDENT, "", False
    rows = []
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        if not any(argument.is_out for argument in schema.arguments):
            overload = getattr(getattr(torch.ops.aten, name), schema.overload_name or "default")
            rows.append(
                (
                    torch.Tag.data_dependent_output in overload.tags,
                    torch.Tag.dynamic_output_shape in overload.tags,
                    overload,
                )
            )
    if rows and all(reads for reads, _, _ in rows):
        return DATA_DEPENDENT, str(rows[0][2]), name == "item"
    if rows and all(decides for _, decides, _ in rows):
        return DYNAMIC_SHAPE, str(rows[0][2]), False
    return None


def by_tags(target):
    """What is known of a function of torch's without a run; see toldByTags in infer_fallback.cpp."""
    if not isinstance(target, (types.BuiltinFunctionType, types.MethodDescriptorType)):
        return None
    if (
        getattr(torch.Tensor, target.__name__, None) is not target
        and getattr(torch, target.__name__, None) is not target
    ):
        return None
    told = _tagged(target)
    if told is not None and told[0] == DYNAMIC_SHAPE and config.capture_dynamic_output_shape_ops:
        return None
    return told


def _without_locals(error):
    """Frames that an error has left hold guards of torch's over dispatch, which take effect when they go: now, and not
    some time later."""
    seen = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__context__
    return error


_RECURRENT = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)


def _reads_batch_sizes(target, args):
    """Whether it is a recurrent layer over a packed sequence: its kernel reads how many sequences each step has, and
    where sizes are symbols torch does not refuse that for a fake, but reads at address 0."""
    return target in _RECURRENT and len(args) > 3 and isinstance(args[3], (tuple, list))


def call(target, args, kwargs, fakes, state):
    """Runs the call; returns (status, ...): see readAnswer in infer_fallback.cpp."""
    if _reads_batch_sizes(target, args):
        return DATA_DEPENDENT, "reads the batch sizes of a packed sequence", None
    before = [facts_of(fake) for fake in fakes]
    storages = {}
    for index, fake in enumerate(fakes):
        for storage in storages_of(fake):
            storages.setdefault(storage, index)
    watch = Watch(storages)
    heard = []
    try:
        with _silence(heard), mode(), watch, _under(state):
            result = target(*args, **kwargs) if callable(target) else target.__get__(*args)
    except DataDependentOutputException as error:
        return DATA_DEPENDENT, str(error), _without_locals(error)
    except DynamicOutputShapeException as error:
        return DYNAMIC_SHAPE, str(error), _without_locals(error)
    except (UnsupportedOperatorException, UnsupportedFakeTensorException, NotImplementedError) as error:
        return UNSUPPORTED, f"{type(error).__name__}: {error}", _without_locals(error)
    except Exception as error:
        return RAISES, f"{type(error).__name__}: {error}", _without_locals(error)
    if heard and isinstance(target, types.FunctionType) and target.__module__ in _WARN_THEMSELVES:
        return WARNS, str(heard[0].message), None
    outputs = _Outputs(fakes, storages)
    structure, detail = outputs.structure(result)
    if outputs.unknown is not None:
        return UNSUPPORTED, f"the result contains {outputs.unknown}", None
    changed = [
        (index, now) for index, (was, now) in enumerate(zip(before, map(facts_of, fakes), strict=True)) if was != now
    ]
    mutates = watch.mutates or int(bool(changed))
    return OK, structure, detail, outputs.rows, changed, mutates, watch.random, tuple(sorted(watch.written))
