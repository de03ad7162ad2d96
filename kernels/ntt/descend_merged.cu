// Columns' passes downward with merged factors, for the tiles of large transforms. See
// merged_kernels.cuh for parameters and launch.
#include "merged_kernels.cuh"

MERGED_COLUMNS(descend, 6, 0, 64, 8);
MERGED_COLUMNS(descend, 6, 1, 64, 8);
MERGED_COLUMNS(descend, 6, 2, 64, 8);
MERGED_COLUMNS(descend, 8, 0, 256, 2);
MERGED_COLUMNS(descend, 8, 1, 256, 2);
MERGED_COLUMNS(descend, 8, 2, 256, 2);
