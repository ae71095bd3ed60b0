/* The fused layer where infinity or NaN meets the margin: a plain convolution does not multiply the margin's zeros, and
   with such a factor that makes a difference. Slow, and hardly ever needed. */
#ifndef AFBS_CAREFUL_H
#define AFBS_CAREFUL_H

#include "conv_backward.h"

INLINE int within(layer at, int margin, int y, int x) {
    return y >= margin && y < at.height - margin && x >= margin && x < at.width - margin;
}

/* `x` is laid out channels last, the weights are as torch has them. */
static void forward_carefully(layer at, int margin, const float *x, const float *weight, const float *bias, maxima to) {
    const int area = at.kernel * at.kernel;
    for (int o = 0; o < at.outputs; o++)
        for (int i = 0; i < windows(at); i++) {
            const int first = 2 * (i / at.columns * at.width + i % at.columns);
            const int64_t place = o * to.of_output + i * to.of_window;
            float best = 0;
            for (int q = 0; q < 4; q++) {
                const int pixel = first + q / 2 * at.width + q % 2;
                float sum = bias[o];
                for (int tap = 0; tap < area; tap++) {
                    const int row = pixel / at.width + tap / at.kernel, column = pixel % at.width + tap % at.kernel;
                    if (!within(at, margin, row, column)) continue;
                    for (int c = 0; c < at.channels; c++)
                        sum += x[((int64_t)row * at.width + column) * at.channels + c] *
                               weight[((int64_t)o * at.channels + c) * area + tap];
                }
                if (q == 0 || sum > best || sum != sum) {
                    best = sum;
                    if (to.pixels) to.pixels[place] = pixel;
                }
            }
            to.values[place] = best <= 0 ? 0 : best;
            if (to.pixels && best <= 0) to.pixels[place] = -1;
        }
}

static void weights_carefully(layer at, int margin, const float *x, const entry *list, int n, float *sums) {
    for (int e = 0; e < n; e++)
        for (int tap = 0; tap < at.kernel * at.kernel; tap++) {
            const int row = list[e].pixel / at.width + tap / at.kernel;
            const int column = list[e].pixel % at.width + tap % at.kernel;
            float *to = sums + tap / at.kernel * row_length(at) + tap % at.kernel * at.channels;
            if (within(at, margin, row, column))
                for (int c = 0; c < at.channels; c++)
                    to[c] += list[e].gradient * x[((int64_t)row * at.width + column) * at.channels + c];
        }
}

#endif
