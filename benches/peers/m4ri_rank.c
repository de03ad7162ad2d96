// Time of M4RI for the rank of a random N x N matrix over GF(2), by each of its two eliminations.
// Debian's package libm4ri-dev is built without OpenMP, so it uses one thread.
//
//   cc -O2 m4ri_rank.c -lm4ri -o m4ri_rank
//   ./m4ri_rank N [RUNS]
#include <m4ri/m4ri.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int argc, char** argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 4096, runs = argc > 2 ? atoi(argv[2]) : 1;
    for (int run = 0; run < runs; run++) {
        for (int pluq = 0; pluq < 2; pluq++) {
            mzd_t* matrix = mzd_init(n, n);
            srandom(run + 1);
            mzd_randomize(matrix);
            const double begun = now();
            const rci_t rank =
                pluq ? mzd_echelonize_pluq(matrix, 0) : mzd_echelonize_m4ri(matrix, 0, 0);
            printf("%s n %d rank %d seconds %.3f\n", pluq ? "pluq" : "m4ri", n, rank, now() - begun);
            fflush(stdout);
            mzd_free(matrix);
        }
    }
    return 0;
}
