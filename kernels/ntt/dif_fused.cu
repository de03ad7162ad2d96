// DIF passes with fused twiddles. See fused_kernels.cuh for parameters and launch.
#include "fused_kernels.cuh"

FUSED_COLUMNS(dif, 6, 2, 0, 64, 8);
FUSED_COLUMNS(dif, 6, 2, 1, 64, 8);
FUSED_COLUMNS(dif, 8, 2, 0, 256, 2);
FUSED_COLUMNS(dif, 8, 2, 1, 256, 2);
FUSED_ROWS(dif, 8, 0, 2, 64, 8);
FUSED_ROWS(dif, 10, 0, 4, 256, 2);
// To natural order: tiles have two rows so that 64 bytes are stored together.
FUSED_ROWS(dif, 8, 1, 2, 128, 4);
