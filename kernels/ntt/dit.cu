// DIT transforms, bit-reversed order to natural: the rows' pass, then columns'. BIT_REVERSED: the
// last pass writes in bit-reversed order, out of place. See kernels.cuh for parameters and launch.
#include "kernels.cuh"

COLUMNS_PASS(ntt_dit_columns_e1_b2, dit_columns, 1, 2, 2, 512, 1);
COLUMNS_PASS(ntt_dit_columns_e2_b1, dit_columns, 2, 4, 1, 512, 1);
COLUMNS_PASS(ntt_dit_columns_e2_b2, dit_columns, 2, 4, 2, 512, 1);
COLUMNS_PASS(ntt_dit_columns_e3_b1, dit_columns, 3, 2, 1, 512, 1);
COLUMNS_PASS(ntt_dit_columns_e3_b2, dit_columns, 3, 2, 2, 512, 1);
ROWS_PASS(ntt_dit_rows_e1, dit_rows, 1, 2, 512, 1);
ROWS_PASS(ntt_dit_rows_e2, dit_rows, 2, 4, 512, 1);
