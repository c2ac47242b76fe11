"""Cold start and steady step with regions, whole, and with TorchDynamo: python -m benchmarks.regions [--models qwen3,bert] [--layers 2,12]
[--train] [--ways whole,auto,dynamo] [--rounds N]. Each measurement is a process of its own with empty caches.

Cold times are CPU seconds of the process and the compilers that it starts (one at a time), so that a busy machine says the same; a steady
step is the CPU time of the median of 30 calls.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = {"vocab_size": 2000, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4}


def make(name, layers):
    import transformers as t

    if name == "bert":
        return t.BertModel(t.BertConfig(**SIZES, num_hidden_layers=layers)), {}
    if name == "gpt2":
        kw = {"vocab_size": 2000, "n_embd": 256, "n_layer": layers, "n_head": 4}
        return t.GPT2LMHeadModel(t.GPT2Config(**kw)), {"use_cache": False}
    if name == "llama":
        config = t.LlamaConfig(**SIZES, num_hidden_layers=layers, num_key_value_heads=4)
        return t.LlamaForCausalLM(config), {"use_cache": False}
    config = t.Qwen3Config(**SIZES, num_hidden_layers=layers, num_key_value_heads=4, head_dim=64)
    return t.Qwen3ForCausalLM(config), {"use_cache": False}


def cpu_seconds():
    used = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        used += usage.ru_utime + usage.ru_stime
    return used


def measure(way, name, layers, train):
    import torch

    import stator

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, kwargs = make(name, layers)
    model.train(train)
    ids = torch.randint(0, 1000, (2, 64))
    torch.compile(lambda x: (x + 1).sin())(torch.ones(64))
    if way == "dynamo":
        compiled = torch.compile(model)
    else:
        compiled = stator.compile(model, options={"regions": {"whole": "off"}.get(way, way)})

    def step():
        if not train:
            with torch.no_grad():
                return compiled(ids, **kwargs)
        compiled(ids, **kwargs)[0].square().mean().backward()
        model.zero_grad()
        return None

    wall, cpu = time.perf_counter(), cpu_seconds()
    out = step()
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    for _ in range(5):
        step()
    steps = []
    for _ in range(30):
        start = time.process_time()
        step()
        steps.append(time.process_time() - start)
    found = {"cold_cpu_s": cpu, "cold_wall_s": wall, "step_ms": 1e3 * statistics.median(steps),
             "least_step_ms": 1e3 * min(steps)}  # fmt: skip
    if way != "dynamo":
        stats = stator.stats()
        found["compilations"] = stats["backend_compilations"]
        found["calls"] = stats["region_calls"] or 1
    if out is not None:
        with torch.no_grad():
            found["difference"] = (out[0] - model(ids, **kwargs)[0]).abs().max().item()
    return found


def in_a_process(way, name, layers, train):
    with tempfile.TemporaryDirectory() as caches:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": caches, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        command = [sys.executable, "-m", "benchmarks.regions", "--one", json.dumps([way, name, layers, train])]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-4000:])
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--models", default="qwen3,bert,gpt2,llama")
    parser.add_argument("--layers", default="2,12")
    parser.add_argument("--ways", default="whole,auto,dynamo")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(*json.loads(given.one))))
        return
    rows = []
    for name in given.models.split(","):
        for layers in map(int, given.layers.split(",")):
            for way in given.ways.split(","):
                rounds = [in_a_process(way, name, layers, given.train) for _ in range(given.rounds)]
                row = min(rounds, key=lambda r: r["cold_cpu_s"]) | {"step_ms": min(r["step_ms"] for r in rounds)}
                rows.append({"model": name, "layers": layers, "way": way, "train": given.train, **row})
                made = f"{row['compilations']} compilations for {row['calls']} calls" if "compilations" in row else ""
                print(f"{name} {layers:3} layers {'train' if given.train else 'forward'} {way:7} cold {row['cold_cpu_s']:6.1f} s CPU, "
                      f"step {row['step_ms']:7.2f} ms, {made}", flush=True)  # fmt: skip
    if given.out:
        with open(given.out, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
