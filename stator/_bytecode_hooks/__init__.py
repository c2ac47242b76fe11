"""Hooks of torch._dynamo.convert_frame.register_bytecode_hook, which vLLM and depyf use."""
