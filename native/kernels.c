/* Compiled once a level, each time with AFBS_TABLE as the name of its table. */
#include "kernels.h"

#include "fused.h"
#include "lenet5.h"

extern const afbs_kernels AFBS_TABLE;
const afbs_kernels AFBS_TABLE = {
    lenet5_sample, lenet5_room, lenet5_lay_out, lenet5_gradient, lenet5_scores,
    layer_maxima,  layer_room,  layer_forward,  layer_backward,
};
