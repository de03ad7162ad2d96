// DIT transforms, bit-reversed order to natural: the rows' pass, then columns'. TURNED: the last
// pass writes in bit-reversed order, out of place. See kernels.cuh for parameters and launch.
#include "kernels.cuh"

COLUMNS_PASS(ntt_ascend_columns_e1_b2, ascend_columns, 1, 2, 2, 512, 1);
COLUMNS_PASS(ntt_ascend_columns_e2_b1, ascend_columns, 2, 4, 1, 512, 1);
COLUMNS_PASS(ntt_ascend_columns_e2_b2, ascend_columns, 2, 4, 2, 512, 1);
COLUMNS_PASS(ntt_ascend_columns_e3_b1, ascend_columns, 3, 2, 1, 512, 1);
COLUMNS_PASS(ntt_ascend_columns_e3_b2, ascend_columns, 3, 2, 2, 512, 1);
ROWS_PASS(ntt_ascend_rows_e1, ascend_rows, 1, 2, 512, 1);
ROWS_PASS(ntt_ascend_rows_e2, ascend_rows, 2, 4, 512, 1);
