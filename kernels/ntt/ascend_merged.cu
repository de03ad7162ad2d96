// Columns' passes upward with merged factors, for the tiles of large transforms. See
// merged_kernels.cuh for parameters and launch.
#include "merged_kernels.cuh"

MERGED_COLUMNS(ascend, 6, 0, 64, 8);
MERGED_COLUMNS(ascend, 6, 1, 64, 8);
MERGED_COLUMNS(ascend, 6, 2, 64, 8);
MERGED_COLUMNS(ascend, 8, 0, 256, 2);
MERGED_COLUMNS(ascend, 8, 1, 256, 2);
MERGED_COLUMNS(ascend, 8, 2, 256, 2);
