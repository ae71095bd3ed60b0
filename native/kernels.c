/* Compiled once a level, each time with AFBS_TABLE as the name of its table. */
#include "kernels.h"

#include "fused.h"
#include "lenet5.h"

static int64_t peak(int64_t rounds, float *result) {
    const vec factor = splat(*result), term = factor * 0.001f;
    vec sums[12];
    UNROLLED for (int i = 0; i < 12; i++) sums[i] = factor + (float)i;
    for (int64_t r = 0; r < rounds; r++) UNROLLED for (int i = 0; i < 12; i++) sums[i] = sums[i] * factor + term;
    UNROLLED for (int i = 1; i < 12; i++) sums[0] += sums[i];
    *result = sums[0][0];
    return rounds * 12 * LANES * 2;
}

extern const afbs_kernels AFBS_TABLE;
const afbs_kernels AFBS_TABLE = {
    lenet5_sample, lenet5_room,   lenet5_lay_out, lenet5_lay_out_bytes, lenet5_gradient,
    lenet5_scores, layer_maxima,  layer_room,     layer_forward,        layer_backward,
    peak,
};
