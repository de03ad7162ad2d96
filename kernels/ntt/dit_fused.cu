// DIT passes with fused twiddles. See fused_kernels.cuh for parameters and launch.
#include "fused_kernels.cuh"

FUSED_COLUMNS(dit, 6, 2, 0, 64, 8);
FUSED_COLUMNS(dit, 6, 2, 1, 64, 8);
FUSED_COLUMNS(dit, 8, 2, 0, 256, 2);
FUSED_COLUMNS(dit, 8, 2, 1, 256, 2);
FUSED_ROWS(dit, 8, 0, 2, 64, 8);
FUSED_ROWS(dit, 10, 0, 4, 256, 2);
