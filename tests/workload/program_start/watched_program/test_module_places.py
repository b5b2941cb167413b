"""Modules and calls are named as the author of the program knows them."""

import torch
from torch import nn

from nsysprof.workload.program_start.watched_program.module_places import find_place, named_modules


def test_names_of_wrappers_are_no_part_of_a_path() -> None:
    inner, outer = nn.Sequential(nn.Linear(4, 4), nn.GELU()), nn.Module()
    outer.module = nn.Module()
    outer.module._orig_mod = inner
    paths = [(path, type(module).__name__) for path, module in named_modules(outer)]
    assert paths == [("", "Module"), ("", "Module"), ("", "Sequential"), ("0", "Linear"), ("1", "GELU")]


def test_the_line_of_a_call_is_the_one_in_the_program() -> None:
    places = []
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda *_: places.append(find_place(torch, lambda path: path.rpartition("/")[2])))
    layer(torch.ones(1, 2))
    assert places[0].startswith("test_module_places.py:")
    assert find_place(torch).startswith(__file__), "whole where nothing shortens it"
