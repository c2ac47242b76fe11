"""A wrong pass for inductor: tanh becomes sin. Importable, so that scripts can name it."""

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass


class WrongTanh(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.nodes:
            if node.op == "call_function" and node.target is torch.ops.aten.tanh.default:
                node.target = torch.ops.aten.sin.default

    def uuid(self):
        return "wrong tanh"


wrong_tanh = WrongTanh()
