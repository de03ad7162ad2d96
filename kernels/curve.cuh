// Points of BLS12-381's G1 and G2, as templates over the coordinate field.
#pragma once
#include "curve/affine.cuh"
#include "curve/endomorphism.cuh"
#include "curve/jacobian.cuh"
#include "curve/xyzz.cuh"
