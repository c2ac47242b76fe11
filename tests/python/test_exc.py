"""stator.exc: TorchDynamo's names, bases and constructors, where there is a counterpart."""

import copy
import inspect
import pickle

import pytest

from stator import exc

# Names that stand for a mechanism that Stator does not have, and that no user code names.
NOT_HERE = {"_SerializedException"}


def dynamo_classes():
    import torch._dynamo.exc as theirs

    for name, cls in vars(theirs).items():
        if isinstance(cls, type) and issubclass(cls, BaseException) and cls.__module__ == theirs.__name__:
            yield name, cls


def test_every_class_of_torchdynamo_has_its_counterpart():
    missing = [n for n, _ in dynamo_classes() if n not in NOT_HERE and not hasattr(exc, n)]
    assert not missing


def test_same_hierarchy():
    for name, theirs in dynamo_classes():
        if name in NOT_HERE:
            continue
        mine = getattr(exc, name)
        for base in theirs.__mro__[1:]:
            if base.__module__ == theirs.__module__:
                assert issubclass(mine, getattr(exc, base.__name__)), (name, base.__name__)
            elif base is not object:
                assert issubclass(mine, base), (name, base.__name__)


def test_constructors_take_torchdynamos_arguments():
    for name, theirs in dynamo_classes():
        if name in NOT_HERE:
            continue
        mine = inspect.signature(getattr(exc, name).__init__).parameters
        if any(p.kind is p.VAR_KEYWORD for p in mine.values()):
            continue
        for parameter in inspect.signature(theirs.__init__).parameters.values():
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                assert parameter.name in mine, (name, parameter.name)


def test_user_error_types():
    import torch._dynamo.exc as theirs

    assert {e.name for e in theirs.UserErrorType} == {e.name for e in exc.UserErrorType}


def test_base_is_a_runtime_error():
    assert issubclass(exc.StatorError, RuntimeError)
    assert exc.TorchDynamoException is exc.StatorError
    assert exc.InternalTorchDynamoError is exc.InternalError


def test_unsupported():
    error = exc.Unsupported("cannot", "a type", case_name="x")
    assert str(error) == "cannot" and error.msg == "cannot" and error.gb_type == "a type"
    assert error.skip_frame is False


def test_backend_failed():
    def bad(gm, inputs): ...

    inner = ValueError("no kernels")
    error = exc.BackendCompilerFailed(bad, inner)
    assert error.backend_name == "bad" and error.inner_exception is inner
    assert "bad" in str(error) and "ValueError: no kernels" in str(error)


def test_a_compiler_that_is_missing():
    error = exc.BackendCompilerFailed("inductor", RuntimeError("InvalidCxxCompiler: No working C++ compiler found"))
    assert 'backend="aot_eager" or "eager" runs the graphs as they are' in str(error) and "stator doctor" in str(error)
    assert "What to do" not in str(exc.BackendCompilerFailed("inductor", RuntimeError("another")))


def test_invalid_backend_lists_the_known():
    error = exc.InvalidBackend("inducter", ["eager", "inductor"])
    assert "eager, inductor" in str(error) and "Did you mean 'inductor'" in str(error)
    assert "'whatever'" in str(exc.InvalidBackend("whatever"))


def test_user_error():
    error = exc.UserError(exc.UserErrorType.DYNAMIC_DIM, "mark it", case_name="dynamic_shape")
    assert error.error_type is exc.UserErrorType.DYNAMIC_DIM
    assert "dynamic-shape" in error.msg and error.message == error.msg == str(error)


@pytest.mark.parametrize(
    "error",
    [
        exc.Unsupported("cannot", "kind"),
        exc.TorchRuntimeError("shapes"),
        exc.UserError(exc.UserErrorType.INVALID_INPUT, "text"),
        exc.BackendCompilerFailed(len, ValueError("x"), inspect.currentframe()),
        exc.InvalidBackend("x", ["y"]),
        exc.ObservedUserStopIteration(3),
        exc.ResetRequired(),
    ],
    ids=lambda e: type(e).__name__,
)
def test_errors_cross_processes(error):
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error) and str(other) == str(error)
        for name in ("msg", "gb_type", "error_type", "backend_name", "value"):
            assert getattr(other, name, None) == getattr(error, name, None)


def test_shortened_traceback():
    frames = []

    def inner():
        raise exc.ShortenTraceback("deep", first_useful_frame=frames[0])

    def useful():
        frames.append(inspect.currentframe())
        inner()

    try:
        useful()
    except exc.ShortenTraceback as error:
        assert error.remove_dynamo_frames().__traceback__.tb_frame is frames[0]
