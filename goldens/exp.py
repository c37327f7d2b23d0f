"""Writes goldens/exp.txt: 10,000 inputs and outputs of the contract's exponential, made with exact rational arithmetic.

Each step of docs/spec.md rule 8 is computed as a fraction and rounded to f32 once, so the file depends on no
processor's fused multiply-add. Usage: python goldens/exp.py
"""

import struct
from fractions import Fraction
from pathlib import Path
from random import Random

COUNT = 10_000
LOG2_E, LN2_HIGH, LN2_LOW = 0x3FB8AA3B, 0x3F317200, 0x35BFBE8E
COEFFICIENTS = [0x3AB5121A, 0x3C091CF1, 0x3D2AAC79, 0x3E2AAA49, 0x3EFFFFFE, 0x3F800000, 0x3F800000]


def value(bits: int) -> Fraction:
    """The number of f32 bits."""
    return Fraction(struct.unpack("<f", struct.pack("<I", bits))[0])


def rounded(number: Fraction) -> Fraction:
    """To the nearest f32, half to even, for magnitudes in the normal range (or zero)."""
    if number == 0:
        return number
    exponent = 0
    while abs(number) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(number) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - 23, -149)
    return round(number / unit) * unit


def bits(number: Fraction) -> int:
    """The f32 bits of a number that is one."""
    return struct.unpack("<I", struct.pack("<f", float(number)))[0]


def exp(x: Fraction) -> Fraction:
    """Rule 8, step by step."""
    if x < -87:
        return Fraction(0)
    n = round(rounded(x * value(LOG2_E)))
    r = rounded(n * -value(LN2_HIGH) + x)
    r = rounded(n * -value(LN2_LOW) + r)
    p = value(COEFFICIENTS[0])
    for coefficient in COEFFICIENTS[1:]:
        p = rounded(p * r + value(coefficient))
    return rounded(p * Fraction(2) ** n)


def main() -> None:
    """Inputs: the edges, then half uniform in [-90, 0] and half spread over magnitudes."""
    random = Random(1)
    inputs = [0.0, -87.0, -87.00001, -88.0, -1e-30, -1e-45, -0.34657359, -0.34657360]
    while len(inputs) < COUNT:
        inputs.append(-random.random() * 90 if len(inputs) % 2 else -(2 ** (random.random() * 40 - 33)))
    lines = []
    for number in inputs:
        x = bits(Fraction(struct.unpack("<f", struct.pack("<f", number))[0]))
        if x == 0 and number != 0:
            continue
        lines.append(f"{x:08x} {bits(exp(value(x))):08x}")
    Path(__file__).with_name("exp.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
