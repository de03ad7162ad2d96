// DIT passes, like dit.cu, for one tile shape each. See kernels.cuh for parameters and launch.
#include "kernels.cuh"

// Tile shapes of large transforms, where a loop's address arithmetic costs most, and of 2^10 and
// 2^16, where latency does (benches/experiments/ntt.md).
SHAPED_COLUMNS(dit, DIT_COLUMNS, 5, 1, 1, 2, 2, 32, 16);
SHAPED_COLUMNS(dit, DIT_COLUMNS, 6, 2, 2, 4, 1, 64, 8);
SHAPED_COLUMNS(dit, DIT_COLUMNS, 6, 2, 2, 4, 2, 64, 8);
SHAPED_COLUMNS(dit, DIT_COLUMNS, 8, 1, 1, 2, 2, 256, 2);
SHAPED_COLUMNS(dit, DIT_COLUMNS, 8, 2, 2, 4, 2, 256, 2);
SHAPED_ROWS(dit, DIT_ROWS, 5, 1, 1, 2, 32, 16);
SHAPED_ROWS(dit, DIT_ROWS, 6, 2, 2, 4, 64, 8);
SHAPED_ROWS(dit, DIT_ROWS, 8, 0, 1, 2, 128, 4);
SHAPED_ROWS(dit, DIT_ROWS, 8, 0, 2, 4, 64, 8);
SHAPED_ROWS(dit, DIT_SINGLE_PASS, 10, 0, 2, 4, 256, 2);
