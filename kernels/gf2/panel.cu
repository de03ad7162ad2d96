// Finds the pivots of the first panel of some columns: `find_pivots`. Those of later panels are
// found by the updates of the panels before them (update.cu).
//
// `first_column`: the number of columns before the panel.
// `given_at`: for each column, the inverted row of the given pivot that leads there, or 0.
// `leading`: for each row, its leading column plus one once it is promoted; zero at the start.
// Launch: a block of 256.
#include "find_pivots.cuh"

KERNEL(256, 1)
gf2_first_panel(const PanelRow* rows, const PanelRow* given, const uint32_t* given_at,
                uint32_t row_count, uint32_t columns, uint32_t first_column, uint32_t* leading,
                PanelPlan* plan) {
    SHARED(PivotSearch, search, 1);
    const PanelInput input = {rows, given, given_at, row_count, columns, first_column};
    find_pivots(search[0], input, leading, plan);
}
EXPORT_KERNEL(gf2_first_panel);
