// Constants of the endomorphisms of BLS12-381's curves, in Montgomery form, R = 2^384. The subgroup
// tests in tests/kernels/curve.rs check them.
#pragma once
#include "../carry.cuh"

// |x| of the curve family's parameter x = -0xd201000000010000.
constexpr uint64_t CURVE_PARAMETER = 0xd201000000010000;

// The cube root of unity with (BETA X, Y) = -[x^2] (X, Y) on G1.
CONSTANT uint32_t BETA[12] = {
    0x798a64e8, 0x30f1361b, 0x7ece5a2a, 0xf3b8ddab, 0xc61577f7, 0x16a8ca3a,
    0x74fd029b, 0xc26a2ff8, 0x60701c6e, 0x3636b766, 0x241b6160, 0x051ba4ab};
// psi(X, Y) = (PSI_X conj(X), PSI_Y conj(Y)) on G2: PSI_X = (1 + u)^(-(p - 1) / 3), c0 then c1.
CONSTANT uint32_t PSI_X[24] = {
    0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000,
    0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x00000000,
    0x867545c3, 0x890dc9e4, 0x3285a5d5, 0x2af32253, 0x309b7e2c, 0x50880866,
    0x7e881024, 0xa20d1b8c, 0xe2db9068, 0x14e4f04f, 0x1564853a, 0x14e56d3f};
// PSI_Y = (1 + u)^(-(p - 1) / 2).
CONSTANT uint32_t PSI_Y[24] = {
    0xa55c9ad1, 0x3e2f585d, 0x86c18183, 0x4294213d, 0x8b623732, 0x382844c8,
    0x19103e18, 0x92ad2afd, 0xac7cf0b9, 0x1d794e4f, 0x7d825ec8, 0x0bd592fc,
    0x5aa30fda, 0x7bcfa7a2, 0x2a927e7c, 0xdc17dec1, 0x6b4ebef1, 0x2f088dd8,
    0xda74d4a7, 0xd1ca2087, 0x96cebc1d, 0x2da25966, 0xbbfd87d2, 0x0e2b7eed};
