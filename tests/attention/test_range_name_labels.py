"""Names that XLA writes into its ranges, and names that only look alike."""

import pytest

from nsysprof.attention.range_name import range_label


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("XlaModule:#hlo_module=jit_step,program_id=6633#", "XlaModule jit_step"),
        ("XlaModule:#prefix=args[0],hlo_module=jit_stage,program_id=0#", "XlaModule jit_stage"),
        ("Thunk:#hlo_op=command_buffer_1#", "Thunk command_buffer_1"),
        ("Thunk:#name=jit(step)/jvp()/dot_general,hlo_op=custom-call.2,unique_hlo_op_id=7#", "Thunk custom-call.2"),
        ("XlaPass:#name=fusion-wrapper,module=gemm_fusion_dot.5,program_id=12#", "XlaPass fusion-wrapper"),
        ("step#", "step#"),
        ("load:#3#", "load:#3#"),
        ("", ""),
    ],
)
def test_labels(name, label):
    assert range_label(name) == label
