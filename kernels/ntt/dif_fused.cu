// DIF passes with fused twiddles. See fused_kernels.cuh for parameters and launch.
#include "fused_kernels.cuh"

MERGED_COLUMNS(dif, 6, 2, 0, 64, 8);
MERGED_COLUMNS(dif, 6, 2, 1, 64, 8);
MERGED_COLUMNS(dif, 8, 2, 0, 256, 2);
MERGED_COLUMNS(dif, 8, 2, 1, 256, 2);
MERGED_ROWS(dif, 8, 0, 2, 64, 8);
MERGED_ROWS(dif, 10, 0, 4, 256, 2);
// To natural order: tiles have two rows so that 64 bytes are stored together.
MERGED_ROWS(dif, 8, 1, 2, 128, 4);
