// DIT passes with fused twiddles. See merged_kernels.cuh for parameters and launch.
#include "merged_kernels.cuh"

MERGED_COLUMNS(ascend, 6, 2, 0, 64, 8);
MERGED_COLUMNS(ascend, 6, 2, 1, 64, 8);
MERGED_COLUMNS(ascend, 8, 2, 0, 256, 2);
MERGED_COLUMNS(ascend, 8, 2, 1, 256, 2);
MERGED_ROWS(ascend, 8, 0, 2, 64, 8);
MERGED_ROWS(ascend, 10, 0, 4, 256, 2);
