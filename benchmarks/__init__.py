"""Benchmarks that measure Stator beside TorchDynamo. See README.md."""
