"""A collection of models on another device: `python -m benchmarks.zoo_on FOLDER/zoo.py --device cuda [arguments of
zoo.py]`.

The file holds SPECS (name -> {"build": () -> (model, inputs, labels)}) and main(); its models and inputs are made on
the CPU and moved.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any


def moved(value: Any, device: str) -> Any:
    import torch
    from torch.utils import _pytree

    return _pytree.tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, value)


def on_device(build: Any, device: str) -> Any:
    def built() -> Any:
        model, inputs, labels = build()

        def there(make: Any) -> Any:
            return None if make is None else lambda *args, **kwargs: moved(make(*args, **kwargs), device)

        return model.to(device), there(inputs), there(labels)

    return built


def main() -> int:
    if sys.argv[1] == "--worker":  # the file measures each model in a process of its own, which is this file again
        path, device, rest = os.environ["STATOR_TEST_ZOO"], os.environ["STATOR_TEST_ZOO_DEVICE"], sys.argv[1:]
    else:
        path, flag, device, *rest = sys.argv[1:]
        if flag != "--device":
            raise SystemExit("usage: python -m benchmarks.zoo_on FILE --device DEVICE [arguments of the file]")
        os.environ.update(STATOR_TEST_ZOO=os.path.abspath(path), STATOR_TEST_ZOO_DEVICE=device)
    found = importlib.util.spec_from_file_location("zoo", path)
    zoo = importlib.util.module_from_spec(found)
    sys.modules["zoo"] = zoo
    found.loader.exec_module(zoo)
    zoo.__file__ = __file__
    for one in zoo.SPECS.values():
        one["build"] = on_device(one["build"], device)
    sys.argv = [path, *rest]
    return zoo.main() or 0


if __name__ == "__main__":
    sys.exit(main())
