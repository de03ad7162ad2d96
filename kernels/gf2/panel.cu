// Finds the pivots of the first panel: `find_pivots`. Those of later panels are found by the
// updates of the panels before them (update.cu).
//
// `given_at`: for each column, the inverted row of the given pivot that leads there, or 0.
// `leading`: for each row, its leading column plus one once it is promoted; zero at the start.
// Launch: a block of 256.
#include "find_pivots.cuh"

KERNEL(256, 1)
gf2_first_panel(const PanelRow* rows, const PanelRow* given, const uint32_t* given_at,
                uint32_t row_count, uint32_t columns, uint32_t* leading, PanelPlan* plan) {
    SHARED(PivotSearch, search, 1);
    find_pivots(search[0], {rows, given, given_at, row_count, columns, 0}, leading, plan);
}
EXPORT_KERNEL(gf2_first_panel);
