"""A size that changes is captured twice: for the number, then for any number. Other values are captured each time they
change."""

import torch

import stator


def scores(x, mode):
    y = x @ x.T
    return y.softmax(-1) if mode == "soft" else y


def captures_of(call):
    before = stator.stats()["captures"]
    call()
    return stator.stats()["captures"] - before


compiled = stator.compile(scores, backend="eager")
counts = [captures_of(lambda rows=rows: compiled(torch.randn(rows, 8), "soft")) for rows in (4, 5, 6, 60)]
print("captures for 4, 5, 6 and 60 rows:", counts)
assert counts == [1, 1, 0, 0]  # the second one is for all sizes

# Known beforehand: the first capture is for all sizes.
stator.reset()
x = torch.randn(4, 8)
stator.mark_dynamic(x, 0)
compiled = stator.compile(scores, backend="eager")
counts = [captures_of(lambda: compiled(x, "soft")), captures_of(lambda: compiled(torch.randn(9, 8), "soft"))]
print("with mark_dynamic:", counts)
assert counts == [1, 0]

# A string is another program: captured again, and the report says which value was what.
with stator.report() as report:
    compiled(torch.randn(4, 8), "hard")
(again,) = report.data()["processes"][0]["recompiles"]
print(again["changes"][0]["text"], "at", again["changes"][0]["used_at"])
assert again["changes"][0]["text"] == "L['mode']: was 'soft', is 'hard'"
