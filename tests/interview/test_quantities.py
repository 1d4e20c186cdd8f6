import pytest

from interview.quantities import agree, quantities


@pytest.mark.parametrize(
    ("text", "expected", "tolerance"),
    [
        ("it is 112 KiB", "112 KiB", 0),
        ("114,688 bytes per token", "112 KiB", 0),
        ("114.7 kB", "112 KiB", 0.01),
        ("about 0.11 MB", "112 KiB", 0.05),
        ("p99 是 2.3 秒", "2.26 s", 0.02),
        ("2260 ms", "2.26 s", 0),
        ("利用率 62.5%", "62.5 %", 0),
        ("a share of 62.5 percent", "62.5 %", 0),
        ("1.52x", "1.52", 0),
        ("快了 1.5 倍", "1.52", 0.02),
        ("3.81 µs", "3.81 us", 0),
        ("a 2k trunk", "2000 tokens", 0),
        ("216 GB/s", "216 GB/s", 0),
        ("15", "15 tokens", 0),
        ("先算 ８，再算 64（即 ６２．５％）", "62.5 %", 0),
        ("命中 8，016 无关", "8 tokens", 0),
    ],
)
def test_the_same_quantity_is_recognised(text, expected, tolerance):
    want = quantities(expected)[0]
    assert any(agree(found, want, tolerance) for found in quantities(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("112 MiB", "112 KiB"),
        ("2.26 ms", "2.26 s"),
        ("62.5 s", "62.5 %"),
        ("120 KiB", "112 KiB"),
        ("version 0.33.0", "33"),
        ("q112b", "112 B"),
        ("216 GB", "216 GB/s"),
    ],
)
def test_another_quantity_is_not(text, expected):
    want = quantities(expected)[0]
    assert not any(agree(found, want, 0.02) for found in quantities(text))
