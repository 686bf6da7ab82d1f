"""The table of devices: what it says where an architecture is listed and where it is not."""

import pytest

from compiler.target.devices import DEFAULT_ARCHITECTURES, DEVICES, H200, MI210, typical_device
from compiler.target.target import parse_gpu


def test_an_architecture_that_is_not_listed_is_taken_for_its_maker_s_default():
    assert typical_device("sm_90a") is typical_device("sm_91") is H200
    assert typical_device("gfx908") is MI210
    assert typical_device("sm_80").sms == 108
    assert typical_device(DEFAULT_ARCHITECTURES["cuda"]) is H200
    assert typical_device(DEFAULT_ARCHITECTURES["hip"]) is MI210


@pytest.mark.parametrize(
    ("target", "sms", "kib"),
    [
        ("cuda:sm_80", 108, 163),
        ("cuda:sm_86", 84, 99),
        ("cuda:sm_87", 16, 163),
        ("cuda:sm_89", 128, 99),
        ("cuda:sm_90", 132, 227),
        ("cuda:sm_103", 148, 227),
        ("cuda:sm_120", 170, 99),
        ("hip:gfx942", 304, 64),
        ("hip:gfx1030,gfx942", 80, 64),
        ("hip:gfx908", 104, 64),
        ("emu:gfx942", 304, 64),
    ],
)
def test_a_target_has_the_limits_of_its_first_architecture(target: str, sms: int, kib: int):
    parsed = parse_gpu(target)
    assert (parsed.device.sms, parsed.shared_bytes) == (sms, kib << 10)


def test_a_block_s_shared_memory_is_part_of_an_sm_s():
    assert all(0 < model.block_shared_bytes <= model.shared_bytes for model in DEVICES.values())
