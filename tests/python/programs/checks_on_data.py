"""Programs that check the data of tensors and raise: in the graph, with eager's exception if a check fails."""

import torch

from tests.python.programs import Case, program, vec


def positive():
    return torch.tensor([1.0, 2.0, 3.0, 4.0])


def mixed():
    return torch.tensor([1.0, -2.0, 3.0, 4.0])


@program(full=4)
def raises_if_any():
    def f(x):
        y = x * 2
        if (y < 0).any():
            raise ValueError(f"negative: {y}")
        return y.sum()

    return Case(f, positive()).changing(positive()).then_call(positive() + 1)


@program()
def raises_at_the_second_call():
    def f(x, log):
        log.append("begin")
        y = x * 2
        if (y < 0).any():
            raise ValueError(f"negative: {y}")
        log.append("end")
        return y.sum()

    log = []
    case = Case(f, positive(), log).changing(positive(), log)
    return case.then_call(mixed(), log).then_call(positive(), log).watching(log)


@program(full=3)
def assert_on_tensor():
    def f(x):
        assert (x > 0).all(), "not positive"
        return x + 1

    return Case(f, positive()).changing(positive()).then_call(positive() + 1)


@program()
def assert_fails():
    def f(x):
        y = x + 1
        assert (x > 0).all(), f"not positive: {y}"
        return y

    return Case(f, mixed())


@program()
def check_caught_by_the_program():
    def f(x):
        try:
            if (x < 0).any():
                raise ValueError("negative")
            y = x + 1
        except ValueError as error:
            return x - 1, str(error)
        return y

    return Case(f, mixed()).then_call(positive()).then_call(mixed())


@program(full=3)
def random_numbers_before_a_check():
    def f(x):
        noise = torch.rand(4)
        if not torch._is_all_true(x > 0):
            raise ValueError("bad")
        return noise + x, torch.rand(2)

    return Case(f, positive()).changing(positive())


@program()
def random_numbers_before_a_check_that_fails():
    def f(x):
        noise = torch.rand(4)
        if not torch._is_all_true(x > 0):
            raise ValueError(f"bad {noise}")
        return noise + x

    state = [None]

    def g(x):
        try:
            return f(x)
        finally:
            state[0] = torch.rand(1)

    return Case(g, mixed()).watching(state)


@program()
def check_between_switches_of_modes():
    def f(x):
        states = []
        for low in (-9, 0):
            try:
                with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                    y = x.view(2, 2) @ x.view(2, 2)
                    if (x < low).any():
                        raise ValueError("too low")
            except ValueError:
                y = x * 3
            states.append((y, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
        return states

    return Case(f, mixed().requires_grad_()).then_call(positive().requires_grad_()).then_call(mixed())


@program()
def writes_before_a_check():
    def f(x):
        x.add_(1)
        if (x < 0).any():
            raise ValueError(f"negative: {x}")
        return x * 2

    return Case(f, mixed())


@program()
def checks_in_a_loop_of_callees():
    def checked(x, low):
        if (x < low).any():
            raise ValueError(f"below {low}")
        return x - low

    def f(x):
        for low in range(3):
            x = checked(x, low)
        return x

    return Case(f, positive() * 10).then_call(positive()).then_call(positive() * 20)


@program(full=2)
def checks_of_distributions():
    def f(x):
        normal = torch.distributions.Normal(x, x.abs() + 0.5)
        return normal.log_prob(x + 1), normal.rsample(), torch.distributions.Categorical(logits=x).sample()

    return Case(f, vec())


@program()
def distribution_with_wrong_arguments():
    def f(x):
        try:
            return torch.distributions.Normal(x, x).rsample()
        except ValueError as error:
            return str(error)

    return Case(f, mixed())


@program(full=1)
def tensor_errors_caught():
    def f(x):
        errors = []
        for attempt in (
            lambda: x + torch.ones(3),
            lambda: x.view(5),
            lambda: x.reshape(2, 2) @ torch.ones(3, 3),
            lambda: torch.cat([x, torch.ones(2, 2)]),
            lambda: x.sum(dim=3),
            lambda: torch.arange(3).add_(0.5),
        ):
            try:
                attempt()
            except (RuntimeError, IndexError) as error:
                errors.append((type(error).__name__, str(error)))
        return errors, x * 2

    return Case(f, vec())
