"""Shape inference: memo, fallback, global state, and rules against eager over random layouts."""

import itertools
import operator
import warnings

import hypothesis.strategies as st
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings

from stator import _core
from tests.python.shape_cases import FAKE, RULES, differences, infer


def facts(answer, index=0):
    assert answer[0] == "ok", answer
    return answer[2]["outputs"][index]


# --- rules against eager


@st.composite
def layouts(draw, max_rank=4):
    """A real tensor: any size, its dims in any order in memory, some expanded, some with gaps, at any offset."""
    size = draw(st.lists(st.integers(1, 4), min_size=0, max_size=max_rank))
    order = draw(st.permutations(range(len(size))))
    expanded = [draw(st.sampled_from([False, False, False, True])) for _ in size]
    step = [draw(st.sampled_from([1, 1, 1, 2])) for _ in size]
    offset = draw(st.integers(0, 2))
    stride, reach = [0] * len(size), 1
    for dim in order:
        if not expanded[dim]:
            stride[dim] = reach * step[dim]
            reach *= size[dim] * step[dim]
    storage = torch.zeros(reach + offset + 8, dtype=draw(st.sampled_from([torch.float32, torch.int64, torch.bool])))
    return storage.as_strided(size, stride, offset)


def check_against_eager(target, args, kwargs=None):
    answer = infer(target, args, kwargs, RULES)
    if answer[0] != "ok":
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = target(*args, **(kwargs or {}))
        except NotImplementedError:  # no kernel for the dtype, which is not a matter of shapes
            return True
    results = result if isinstance(result, (tuple, list)) else (result,)
    assert len(results) == len(answer[2]["outputs"])
    for one, seen in zip(results, answer[2]["outputs"]):
        assert seen["size"] == tuple(one.shape)
        assert seen["stride"] == one.stride()
        assert seen["dtype"] == one.dtype
        assert seen["offset"] == one.storage_offset()
        same = next((i for i, arg in enumerate(args) if one is arg), -1)
        assert seen["same_object_as"] == same
        shares = [
            i
            for i, arg in enumerate(args)
            if isinstance(arg, torch.Tensor) and arg.untyped_storage()._cdata == one.untyped_storage()._cdata
        ]
        assert seen["alias_of"] == (shares[0] if shares else -1)
    return True


QUICK = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)

POINTWISE = [torch.add, torch.mul, torch.true_divide, torch.eq, torch.lt, torch.maximum, operator.add, operator.truediv]
UNARY = [
    torch.exp,
    torch.neg,
    torch.abs,
    torch.sigmoid,
    torch.relu,
    torch.clone,
    torch.logical_not,
    torch.isnan,
    torch.sign,
]


@QUICK
@given(layouts(), layouts(), st.sampled_from(POINTWISE))
def test_binary_ops(left, right, target):
    try:
        torch.broadcast_shapes(left.shape, right.shape)
    except RuntimeError:
        assert infer(target, (left, right), tiers=RULES)[0] != "ok"
        return
    if left.dtype != right.dtype:
        # The CPU copies an operand that it promotes, and the copy's strides count; FakeTensor and other devices do not.
        rule = infer(target, (left, right), tiers=RULES)
        if rule[0] == "ok":
            assert not differences(rule, infer(target, (left, right), tiers=FAKE))
        return
    check_against_eager(target, (left, right))


@QUICK
@given(layouts(), layouts(), layouts())
def test_where(condition, left, right):
    try:
        torch.broadcast_shapes(condition.shape, left.shape, right.shape)
    except RuntimeError:
        return
    if left.dtype != right.dtype:
        return
    check_against_eager(torch.where, (condition.bool() if condition.dtype != torch.bool else condition, left, right))


@QUICK
@given(layouts(), st.sampled_from([2, 0.5, True]), st.sampled_from([torch.add, torch.mul, operator.gt, torch.pow]))
def test_numbers(tensor, number, target):
    check_against_eager(target, (tensor, number))


@QUICK
@given(layouts(), st.sampled_from(UNARY))
def test_unary_ops(tensor, target):
    check_against_eager(target, (tensor,))


@QUICK
@given(layouts(), st.data())
def test_views(tensor, data):
    rank = tensor.dim()
    dims = st.integers(-rank, rank - 1) if rank else st.just(0)
    calls = [
        (torch.Tensor.unsqueeze, (data.draw(st.integers(0, rank)),)),
        (torch.Tensor.squeeze, ()),
        (torch.Tensor.flatten, ()),
        (torch.Tensor.reshape, (-1,)),
        (torch.Tensor.contiguous, ()),
        (torch.Tensor.to, (torch.float64,)),
        (torch.Tensor.to, (tensor.dtype,)),
        (torch.Tensor.expand, (2, *tensor.shape)),
        (torch.permute, (data.draw(st.permutations(range(rank))),)),
    ]
    if rank:
        calls += [
            (torch.Tensor.transpose, (data.draw(dims), data.draw(dims))),
            (torch.Tensor.select, (data.draw(dims), 0)),
            (torch.Tensor.split, (2, data.draw(dims))),
            (torch.Tensor.chunk, (2, data.draw(dims))),
            (torch.Tensor.unbind, (data.draw(dims),)),
            (torch.Tensor.narrow, (data.draw(dims), 0, 1)),
        ]
    for target, rest in calls:
        assert check_against_eager(target, (tensor, *rest)), target


PARTS = st.one_of(
    st.none(),
    st.just(Ellipsis),
    st.integers(-2, 1),
    st.builds(slice, st.none() | st.integers(-3, 3), st.none() | st.integers(-3, 3), st.none() | st.integers(1, 2)),
    st.builds(lambda n: torch.zeros(n, dtype=torch.int64), st.integers(1, 3)),
    st.just([0, 0]),
)


@QUICK
@given(layouts(), st.one_of(PARTS, st.lists(PARTS, max_size=4).map(tuple)))
def test_indexing(tensor, index):
    try:
        tensor[index]
    except (IndexError, RuntimeError, TypeError):
        assert infer(operator.getitem, (tensor, index), tiers=RULES)[0] != "ok"
        return
    check_against_eager(operator.getitem, (tensor, index))


@QUICK
@given(layouts(), st.data())
def test_reductions(tensor, data):
    rank = tensor.dim()
    dim = data.draw(st.integers(-rank, rank - 1)) if rank else 0
    keepdim = data.draw(st.booleans())
    for target in (torch.sum, torch.mean, torch.amax, torch.max, torch.argmax, torch.any, torch.std, torch.prod):
        for args in ((tensor,), (tensor, dim, keepdim)):
            if infer(target, args, None, RULES)[0] == "ok":
                check_against_eager(target, args)
    check_against_eager(torch.cumsum, (tensor, dim))
    check_against_eager(torch.softmax, (tensor, dim))
    check_against_eager(torch.sort, (tensor, dim))


# --- memo


@pytest.fixture
def clean():
    _core.shapes_clear()
    yield
    _core.shapes_clear()


def test_second_ask_is_a_memo_hit(clean):
    x = torch.randn(2, 3)
    assert infer(torch.add, (x, 1))[1] == "rule"
    assert infer(torch.add, (x, 1))[1] == "memo"
    assert infer(torch.add, (torch.randn(2, 3), 1))[1] == "memo"
    assert infer(torch.cross, (x, x))[1] == "fake"
    assert infer(torch.cross, (x, x))[1] == "memo"
    assert _core.shapes_counts() == {"memo": 3, "rule": 1, "fake": 1, "failed": 0, "entries": 2}


def test_constants_carry_their_type(clean):
    x = torch.ones(3, dtype=torch.int64)
    dtypes = [facts(infer(torch.add, (x, number)))["dtype"] for number in (1, True, 1.0, 1j, 1, 1.0)]
    assert dtypes == [torch.int64, torch.int64, torch.float32, torch.complex64, torch.int64, torch.float32]


def test_key_tells_facts_apart(clean):
    x = torch.randn(4, 4)
    variants = [x, x.t(), x.to(torch.float64), x.clone().requires_grad_(), torch.randn(5, 4)[1:], torch.nn.Parameter(x)]
    for variant in variants:
        assert infer(torch.Tensor.view, (variant, 16) if variant.is_contiguous() else (variant, 4, 4))[1] == "rule"


def test_key_tells_sharing_apart(clean):
    x = torch.randn(4)
    assert infer(torch.Tensor.add_, (x, x))[1] == "rule"
    assert infer(torch.Tensor.add_, (x, torch.randn(4)))[1] == "rule"
    assert infer(torch.Tensor.add_, (x, x.view(4)))[1] == "rule"
    base = torch.randn(5)
    assert infer(torch.Tensor.add_, (base[:4], base[1:]))[1] == "fake"  # eager raises: they overlap in part


def test_key_tells_state_apart(clean):
    x = torch.ones(3, dtype=torch.int64)
    assert facts(infer(torch.sqrt, (x,)))["dtype"] == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert facts(infer(torch.sqrt, (x,)))["dtype"] == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    w = torch.randn(3, requires_grad=True)
    assert facts(infer(torch.sin, (w,)))["requires_grad"]
    with torch.no_grad():
        assert not facts(infer(torch.sin, (w,)))["requires_grad"]


def test_list_and_tuple_differ(clean):
    x = torch.randn(4, 4)
    assert facts(infer(operator.getitem, (x, (0, 1))))["size"] == ()
    assert facts(infer(operator.getitem, (x, [0, 1])))["size"] == (2, 4)


# --- fallback


def test_statuses():
    x = torch.randn(4)
    assert infer("item", (x[0],))[0] == "data_dependent"
    assert infer(torch.nonzero, (x,))[0] == "dynamic_shape"
    status, _, error = infer(torch.add, (x, torch.randn(3)))
    assert status == "raises" and isinstance(error, RuntimeError)
    assert infer(torch.relu, (x.to_sparse(),))[0] == "unsupported"
    assert infer("no_such_method", (x,))[0] == "unsupported"


def test_failures_are_not_remembered(clean):
    x = torch.randn(4)
    for _ in range(2):
        assert infer("item", (x[0],))[:2] == ("data_dependent", "fake")
    assert _core.shapes_counts()["entries"] == 0


def test_rules_know_what_autocast_casts():
    x = torch.randn(4, 4)
    assert facts(infer(torch.mm, (x, x)))["dtype"] == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for target, args, dtype in [
            (torch.mm, (x, x), torch.bfloat16),
            (torch.Tensor.__matmul__, (x.t(), x), torch.bfloat16),
            (torch.add, (x, 1), torch.float32),
            (torch.Tensor.reshape, (x, 2, 8), torch.float32),
        ]:
            answer = infer(target, args)
            assert facts(answer)["dtype"] == dtype == target(*args).dtype and answer[1] == "rule"
        for target, args in [(torch.cat, ([x, x.bfloat16()],)), (torch.Tensor.addmm_, (x.clone(), x, x))]:
            assert infer(target, args)[1] == "fake"


def test_structures():
    x = torch.randn(4, 4)
    assert infer(torch.linalg.qr, (x,), None, FAKE)[2]["structure"] == "named"
    assert infer(torch.meshgrid, (x[0], x[1]), {"indexing": "ij"}, FAKE)[2]["structure"] == "tuple"
    nested = infer(lambda t: {"a": t + 1, "b": [t, 2]}, (x,), None, FAKE)[2]
    assert nested["structure"] == "nested"
    assert nested["skeleton"] == {"a": 0, "b": [1, 2]}
    assert nested["outputs"][1]["same_object_as"] == 0
    assert nested["outputs"][2]["constant"] == 2


def test_outputs_that_share_a_storage():
    def two(t):
        fresh = t + 1
        return fresh[0], fresh[1]

    first, second = infer(two, (torch.randn(2, 2),), None, FAKE)[2]["outputs"]
    assert first["alias_of_output"] == -1 and second["alias_of_output"] == 0
    assert second["alias_of"] == -1 and second["offset"] == 2


def test_nothing_is_drawn_or_changed():
    x = torch.randn(4, 4)
    before = torch.get_rng_state()
    for tiers in (RULES, FAKE):
        assert infer(F.dropout, (x, 0.5, True), None, tiers)[2]["random"]
        answer = infer(torch.Tensor.add_, (x, 1), None, tiers)
        assert answer[2]["mutates"] and facts(answer)["same_object_as"] == 0
    infer(torch.rand, (3,), None, FAKE)
    assert torch.equal(before, torch.get_rng_state())
    assert x._version == 0


def test_changed_inputs():
    target = torch.zeros(3)
    weight = torch.randn(3, requires_grad=True)
    for tiers in (RULES, FAKE):
        answer = infer(operator.imul, (target, weight), None, tiers)[2]
        ((number, now),) = answer["changed"]
        assert number == 0 and now["requires_grad"] and not now["is_leaf"]
    ((number, now),) = infer("t_", (torch.randn(2, 3),))[2]["changed"]
    assert (number, now["size"], now["stride"]) == (0, (3, 2), (1, 3))


def test_same_tensor_twice():
    x = torch.randn(3)
    for tiers in (RULES, FAKE):
        assert facts(infer(torch.Tensor.copy_, (x, x), None, tiers))["same_object_as"] == 0


def test_stand_ins_of_batch_norm_statistics():
    args = (torch.randn(2, 3, 4, 4), torch.zeros(3), torch.ones(3))
    for tiers in (RULES, FAKE):
        assert infer(F.batch_norm, args, {"training": True}, tiers)[2]["mutates"]
        assert not infer(F.batch_norm, args, {"training": False}, tiers)[2]["mutates"]


LAYERS = [torch.lstm, torch.gru, torch.rnn_tanh, torch.nn.functional.multi_head_attention_forward]
LAYERS += [torch._native_multi_head_attention, torch._transformer_encoder_layer_fwd, torch._weight_norm]


@pytest.mark.parametrize("grad", [False, True])
def test_whole_layers(grad):
    """The calls that recurrent and attention layers make are answered by rules, as eager answers them."""
    from torch.overrides import TorchFunctionMode

    seen = set()

    class Compare(TorchFunctionMode):
        def __torch_function__(self, target, types, args=(), kwargs=None):
            result = target(*args, **(kwargs or {}))
            if target not in LAYERS:
                return result
            seen.add(target)
            answer = infer(target, args, kwargs, RULES)
            assert answer[0] == "ok", target
            results = result if isinstance(result, tuple) else (result,)
            for one, expected in zip(results, answer[2]["outputs"], strict=True):
                if one is not None:
                    facts = (expected["size"], expected["stride"], expected["dtype"], expected["requires_grad"])
                    assert facts == (tuple(one.shape), one.stride(), one.dtype, one.requires_grad), target
            return result

    infer(torch.add, (torch.ones(2), 1), {}, RULES)
    with torch.set_grad_enabled(grad), Compare():
        for batch_first in (False, True):
            x = torch.randn(2, 7, 8)
            for both in (False, True):
                for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
                    kind(8, 5, 2, batch_first=batch_first, bidirectional=both)(x)
            torch.nn.LSTM(8, 5, proj_size=3, batch_first=batch_first)(x)
            attention = torch.nn.MultiheadAttention(8, 2, batch_first=batch_first)
            keys = torch.randn(2, 6, 8) if batch_first else torch.randn(6, 7, 8)
            for train, need, average in itertools.product((False, True), repeat=3):
                attention.train(train)
                attention(x, keys, keys, need_weights=need, average_attn_weights=average)
                attention(x, x, x, need_weights=need, average_attn_weights=average)
            # The fast paths of inference, which the layers leave out under a mode.
            layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).requires_grad_(False).eval()
            own = layer.self_attn
            weights = own.in_proj_weight, own.in_proj_bias, own.out_proj.weight, own.out_proj.bias
            for need in (False, True):
                torch._native_multi_head_attention(x, x, x, 8, 2, *weights, None, need, True)
            norms = layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias
            linear = layer.linear1.weight, layer.linear1.bias, layer.linear2.weight, layer.linear2.bias
            torch._transformer_encoder_layer_fwd(x, 8, 2, *weights, False, False, 1e-5, *norms, *linear)
            torch._weight_norm(torch.randn(4, 3, 5), torch.randn(1, 1, 5), 2)
    assert seen == set(LAYERS)
