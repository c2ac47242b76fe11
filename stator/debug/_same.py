"""Whether a result agrees with a reference: over any structure, with an fp64 reference as the judge of what rounding
explains.

The rule for one tensor: equal within `tol` (absolute and relative) is the same. Otherwise, if there is an fp64
reference, the result's root mean square error against it may be `multiplier` times that of the eager reference, plus
tol / 10. The multiplier is 2; 3 for float16 and bfloat16, for fewer than 1000 elements, for 1x1 maps and for tol >=
0.02; with use_larger_multiplier_for_smaller_tensor it is 10 up to 10 elements and 8 up to 500.

Where torch._dynamo.utils.same raises, this one answers False, with a reason: unequal structures, keys, lengths, types.
Other deliberate differences: shapes have to be equal (no broadcasting); complex tensors are judged by the fp64
reference too (a complex128 one); all fields of a question answering output count, not its loss alone; dataclasses,
quantized, nested and all sparse layouts are compared.
"""

import collections
import dataclasses
import logging
import math

import torch

log = logging.getLogger("stator.debug")

_SEQUENCES = (list, tuple, collections.deque, torch.nn.ParameterList)
_SETS = (set, frozenset)
_PLAIN = (str, int, type(None), bool, torch.device, bytes, torch.dtype, torch.layout, torch.memory_format, slice, range)


@dataclasses.dataclass
class Rules:
    cos_similarity: bool = False
    tol: float = 1e-4
    equal_nan: bool = False
    exact_dtype: bool = True
    relax_numpy_equality: bool = False
    ignore_non_fp: bool = False
    use_larger_multiplier_for_smaller_tensor: bool = False


def compare(ref, res, fp64_ref=None, name="out", **rules):
    """The first difference as text (`out['logits'][3]: max abs 0.2 at (1, 5)`), or None. Takes same()'s keywords."""
    return _compare(ref, res, ref if fp64_ref is None else fp64_ref, name, Rules(**rules))


def same(
    ref,
    res,
    fp64_ref=None,
    cos_similarity=False,
    tol=1e-4,
    equal_nan=False,
    exact_dtype=True,
    relax_numpy_equality=False,
    ignore_non_fp=False,
    log_error=log.error,
    use_larger_multiplier_for_smaller_tensor=False,
):
    """Whether two results agree; log_error gets the first difference, as one text with its path."""
    rules = Rules(
        cos_similarity, tol, equal_nan, exact_dtype, relax_numpy_equality, ignore_non_fp,
        use_larger_multiplier_for_smaller_tensor,
    )  # fmt: skip
    found = _compare(ref, res, ref if fp64_ref is None else fp64_ref, "out", rules)
    if found is not None:
        log_error(found)
    return found is None


def _compare(ref, res, exact, path, rules):
    parts = _parts(ref)
    if parts is not None:
        return _compare_parts(ref, res, parts, _parts(exact), path, rules)
    if isinstance(ref, (torch.Tensor, float)):
        return _compare_tensors(ref, res, exact, path, rules)
    if type(ref).__module__ == "numpy":
        return _compare_numpy(ref, res, exact, path, rules)
    is_plain = isinstance(ref, _PLAIN)
    if is_plain and rules.ignore_non_fp:
        return None
    if not isinstance(ref, (*_PLAIN, *_SETS)) and type(ref) is not type(res):
        return _other_kind(ref, res, path)
    try:
        equal = bool(ref == res)
    except Exception:  # an odd object on the other side: unequal
        equal = False
    return None if equal else f"{path}: {_short(ref)} became {_short(res)}"


def _parts(value):
    """(what can be compared with it, {how it is reached: part}) of a value that is made of others; None for the
    rest."""
    if isinstance(value, _SEQUENCES):
        fields = getattr(type(value), "_fields", None)
        names = [f".{field}" for field in fields] if fields else [f"[{i}]" for i in range(len(value))]
        return _SEQUENCES, dict(zip(names, value, strict=True))
    if isinstance(value, dict):
        return dict, {f"[{key!r}]": part for key, part in value.items()}
    if isinstance(value, (*_PLAIN, *_SETS, torch.Tensor, float, type)) or type(value).__module__ == "numpy":
        return None
    if dataclasses.is_dataclass(value):
        return type(value), {f".{field.name}": getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "__dict__"):  # distributions and other plain objects that models return
        return type(value), {f".{n}": part for n, part in vars(value).items() if not n.startswith("__")}
    return None


def _compare_parts(ref, res, parts, judges, path, rules):
    kind, ours = parts
    if not (isinstance(res, kind) if kind in (_SEQUENCES, dict) else type(res) is kind):
        return _other_kind(ref, res, path)
    theirs = _parts(res)[1]
    if kind is _SEQUENCES and len(ours) != len(theirs):
        return f"{path}: {len(ours)} items became {len(theirs)}"
    if kind is _SEQUENCES:
        theirs = dict(zip(ours, theirs.values(), strict=True))
    elif ours.keys() != theirs.keys():
        return f"{path}: keys that are gone: {_only(ours, theirs)}, that are new: {_only(theirs, ours)}"
    judges = judges[1] if judges is not None and judges[1].keys() == ours.keys() else ours
    found = (_compare(ours[at], theirs[at], judges[at], path + at, rules) for at in ours)
    return next((difference for difference in found if difference is not None), None)


def _only(parts, others):
    return f"[{', '.join(at.strip('[].') for at in parts if at not in others)}]"


def _other_kind(ref, res, path):
    return f"{path}: a {type(ref).__name__} became a {type(res).__name__}"


def _short(value):
    if isinstance(value, torch.Tensor):
        return f"a tensor {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."


def _compare_numpy(ref, res, exact, path, rules):
    import numpy

    if isinstance(ref, numpy.ndarray):
        if type(ref) is not type(res):
            return _other_kind(ref, res, path)
        judge = torch.as_tensor(exact) if isinstance(exact, numpy.ndarray) else exact
        return _compare(torch.as_tensor(ref), torch.as_tensor(res), judge, path, rules)
    if rules.relax_numpy_equality and not isinstance(res, numpy.generic):
        ref = ref.item()
    if type(ref) is type(res) and ref == res:
        return None
    return f"{path}: {ref!r} ({type(ref).__name__}) became {_short(res)} ({type(res).__name__})"


def _plain(tensor):
    """The values of a tensor of any layout as a strided one."""
    if tensor.is_quantized:
        return tensor.dequantize()
    if tensor.layout is not torch.strided and not tensor.is_nested:
        return tensor.to_dense()
    if tensor.is_conj() or tensor.is_neg():
        return tensor.resolve_conj().resolve_neg()
    return tensor


def _compare_tensors(ref, res, exact, path, rules):
    if not isinstance(res, (torch.Tensor, float, int)):
        return _other_kind(ref, res, path)
    ref, res, exact = (
        t if isinstance(t, torch.Tensor) else torch.tensor(t if isinstance(t, (float, int)) else 0)
        for t in (ref, res, exact)
    )
    if any(isinstance(t, torch._subclasses.FakeTensor) for t in (ref, res)):
        return f"{path}: a fake tensor has no values to compare"
    with torch.no_grad():
        if ref.is_nested or res.is_nested:
            return _compare_nested(ref, res, exact, path, rules)
        if ref.layout is not res.layout:
            return f"{path}: layout {ref.layout} became {res.layout}"
        if ref.shape != res.shape:
            return f"{path}: shape {tuple(ref.shape)} became {tuple(res.shape)}"
        res, exact = res.to(ref.device), exact.to(ref.device)
        if rules.exact_dtype and ref.dtype != res.dtype:
            return f"{path}: dtype {ref.dtype} became {res.dtype}"
        return _compare_values(_plain(ref), _plain(res), _plain(exact), path, rules)


def _compare_nested(ref, res, exact, path, rules):
    if not (ref.is_nested and res.is_nested):
        return f"{path}: one of the two is nested"
    if rules.exact_dtype and ref.dtype != res.dtype:
        return f"{path}: dtype {ref.dtype} became {res.dtype}"
    parts = [list(t.unbind()) for t in (ref, res, exact if exact.is_nested else ref)]
    return _compare(*parts, path, rules)


def _compare_values(ref, res, exact, path, rules):
    if ref.dtype is torch.bool:
        if rules.exact_dtype and rules.ignore_non_fp:
            return None
        ref, res = ref.to(torch.uint8), res.to(torch.uint8) if res.dtype is torch.bool else res
        if rules.exact_dtype:
            return None if torch.equal(ref, res) else _difference(ref, res, path, rules)
    if rules.cos_similarity:
        return _compare_directions(ref, res, path, rules)
    if not rules.exact_dtype:
        ref = ref.to(res.dtype)
        if res.dtype is torch.bool:
            ref, res = ref.to(torch.uint8), res.to(torch.uint8)
    if ref.dtype.itemsize == 1 and ref.dtype.is_floating_point:  # float8 has no arithmetic
        ref, res = ref.float(), res.float()
    if torch.allclose(ref, res, atol=rules.tol, rtol=rules.tol, equal_nan=rules.equal_nan):
        return None
    if exact.dtype in (torch.float64, torch.complex128) and exact.shape == ref.shape:
        return _compare_errors(ref, res, exact, path, rules)
    if rules.ignore_non_fp:
        return None
    return _difference(ref, res, path, rules)


def _compare_directions(ref, res, path, rules):
    ref, res = ref.flatten().to(torch.float32), res.flatten().to(torch.float32)
    if torch.allclose(ref, res, atol=rules.tol, rtol=rules.tol, equal_nan=True):
        return None
    score = torch.nn.functional.cosine_similarity(ref, res, dim=0, eps=1e-6).item()
    return None if score >= 0.99 else f"{path}: cosine similarity {score:.4g}"


def _error(exact, value):
    difference = exact - value.to(exact.dtype)
    return torch.sqrt(torch.mean(torch.square(difference.abs()))).item()


def _multiplier(ref, res, exact, rules):
    if rules.use_larger_multiplier_for_smaller_tensor and exact.numel() <= 500:
        return 10.0 if exact.numel() <= 10 else 8.0
    one_by_one = ref.ndim == 4 and ref.shape[-1] == ref.shape[-2] == 1
    half = res.dtype in (torch.float16, torch.bfloat16)
    return 3.0 if half or exact.numel() < 1000 or one_by_one or rules.tol >= 2e-2 else 2.0


def _compare_errors(ref, res, exact, path, rules):
    # A result without NaN where eager in this precision has some, close to the fp64 one, is better than eager's.
    loose = 4e-2
    better = (
        bool(ref.isnan().any())
        and not bool(exact.isnan().any())
        and not bool(res.isnan().any())
        and torch.allclose(exact.to(res.dtype), res, atol=loose, rtol=loose, equal_nan=rules.equal_nan)
    )
    if better:
        return None
    ref_error, res_error = _error(exact, ref), _error(exact, res)
    multiplier = _multiplier(ref, res, exact, rules)
    if res_error <= multiplier * ref_error + rules.tol / 10.0:
        return None
    if rules.equal_nan and math.isnan(ref_error) and math.isnan(res_error):
        return None
    rest = f"error against fp64 {res_error:.3g}, eager's {ref_error:.3g}"
    return f"{_difference(ref, res, path, rules)}; {rest}"


def _difference(ref, res, path, rules):
    """Where two tensors of one shape differ most."""
    wide = torch.complex128 if ref.dtype.is_complex or res.dtype.is_complex else torch.float64
    distance = (ref.to(wide) - res.to(wide)).abs()
    odd = ref.isnan() != res.isnan()
    # inf - inf is NaN: equal infinities do not differ.
    distance = torch.where(ref == res, torch.zeros_like(distance), distance)
    count = int((distance > rules.tol).sum()) + int(odd.sum())
    if bool(odd.any()):
        at = tuple(torch.nonzero(odd)[0].tolist())
        return f"{path}: {_item(ref, at)} became {_item(res, at)} at {at}; {count} of {ref.numel()} elements differ"
    clean = torch.nan_to_num(distance, nan=-1.0, posinf=math.inf)
    if clean.numel() == 0:
        return f"{path}: differs"
    at = tuple(int(i) for i in torch.unravel_index(clean.argmax(), ref.shape))
    return (
        f"{path}: max abs {clean[at].item():.6g} at {at} ({_item(ref, at)} became {_item(res, at)}); "
        f"{count} of {ref.numel()} elements differ"
    )


def _item(tensor, at):
    value = tensor[at].item()
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
