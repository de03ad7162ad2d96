// DIF transforms, from natural order to bit-reversed: columns' passes, then the rows' pass.
// BIT_REVERSED: the last pass writes in natural order, out of place. See kernels.cuh for parameters
// and launch.
#include "kernels.cuh"

COLUMNS_PASS(ntt_dif_columns_e1_b2, dif_columns, 1, 2, 2, 512, 1);
COLUMNS_PASS(ntt_dif_columns_e2_b1, dif_columns, 2, 4, 1, 512, 1);
COLUMNS_PASS(ntt_dif_columns_e2_b2, dif_columns, 2, 4, 2, 512, 1);
COLUMNS_PASS(ntt_dif_columns_e3_b1, dif_columns, 3, 2, 1, 512, 1);
COLUMNS_PASS(ntt_dif_columns_e3_b2, dif_columns, 3, 2, 2, 512, 1);
ROWS_PASS(ntt_dif_rows_e1, dif_rows, 1, 2, 512, 1);
ROWS_PASS(ntt_dif_rows_e2, dif_rows, 2, 4, 512, 1);
