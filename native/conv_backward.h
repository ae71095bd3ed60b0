/* The fused layer, backward, on one sample that is laid out channels last.

The gradient goes where the maximum came from, if ReLU lets it, so an output's gradient is a short list of (gradient,
pixel). The zeros elsewhere add nothing and are left out, unless infinity or NaN is about: then 0 times that is NaN, and
the list holds every pixel that a plain convolution would multiply. */
#ifndef AFBS_CONV_BACKWARD_H
#define AFBS_CONV_BACKWARD_H

#include "conv.h"

typedef struct {
    float gradient;
    int32_t pixel;
} entry;

/* A row of a kernel in whole vectors: what is read beyond it is never used. */
INLINE int row_length(layer at) { return rounded(at.kernel * at.channels); }
INLINE int64_t longest_list(layer at) {
    return (int64_t)(at.height - at.kernel + 1) * (at.width - at.kernel + 1) + 1;
}

/* The gradient of one output as a list. That of window i is at i * step. The count is not kept by a comparison: what
   becomes of one may have to wait for the count before it. */
INLINE int list_some(layer at, const float *gradient, int64_t step, const int32_t *from, int64_t from_step,
                     entry *list) {
    const int count = windows(at);
    uint32_t n = 0;
    for (int i = 0; i < count; i++) {
        const int32_t pixel = from[i * from_step];
        list[n] = (entry){gradient[i * step], pixel};
        n += ~(uint32_t)pixel >> 31;
    }
    return (int)n;
}

static int list_all(layer at, const float *gradient, int64_t step, const int32_t *from, int64_t from_step,
                    entry *list) {
    int n = 0;
    for (int y = 0; y <= at.height - at.kernel; y++)
        for (int x = 0; x <= at.width - at.kernel; x++) {
            const int pixel = y * at.width + x, i = y / 2 * at.columns + x / 2;
            const int inside = y < 2 * at.rows && x < 2 * at.columns;
            list[n++] = (entry){inside && from[i * from_step] == pixel ? gradient[i * step] : 0, pixel};
        }
    return n;
}

INLINE int list_gradient(layer at, int wild, const float *gradient, int64_t step, maxima of, int output, entry *list) {
    const int32_t *from = of.pixels + output * of.of_output;
    return wild ? list_all(at, gradient, step, from, of.of_window, list)
                : list_some(at, gradient, step, from, of.of_window, list);
}

INLINE float list_total(const entry *list, int n) {
    float sums[4] = {0, 0, 0, 0};
    int e = 0;
    for (; e + 4 <= n; e += 4) UNROLLED for (int i = 0; i < 4; i++) sums[i] += list[e + i].gradient;
    for (; e < n; e++) sums[0] += list[e].gradient;
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

INLINE void rows_backward(layer at, const float *x, const entry *list, int n, float *sums, const int rows,
                          const int vectors) {
    const int row = at.width * at.channels, length = row_length(at);
    vec kept[12];
    UNROLLED for (int i = 0; i < rows * vectors; i++) kept[i] = splat(0);
    for (int e = 0; e < n; e++) {
        const vec g = splat(list[e].gradient);
        const float *from = x + (int64_t)list[e].pixel * at.channels;
        UNROLLED for (int i = 0; i < rows * vectors; i++)
            kept[i] += g * load(from + (int64_t)(i / vectors) * row + i % vectors * LANES);
    }
    UNROLLED for (int i = 0; i < rows * vectors; i++) {
        float *to = sums + i / vectors * length + i % vectors * LANES;
        store(to, load(to) + kept[i]);
    }
}

/* Adds to the gradient of one output's weights, which is laid out (y, row_length). */
INLINE void weights_backward(layer at, const float *x, const entry *list, int n, float *sums) {
    const int row = at.width * at.channels, length = row_length(at), vectors = length / LANES;
    for (int ky = 0; ky < at.kernel;) {
        const float *from = x + (int64_t)ky * row;
        float *to = sums + ky * length;
        const int left = at.kernel - ky;
#define ROWS(r, v) (rows_backward(at, from, list, n, to, r, v), ky += r)
        if (vectors == 1 && left >= 5) ROWS(5, 1);
        else if (vectors == 1 && left >= 3) ROWS(3, 1);
        else if (vectors == 2 && left >= 5) ROWS(5, 2);
        else if (vectors == 2 && left >= 3) ROWS(3, 2);
        else if (vectors == 3 && left >= 3) ROWS(3, 3);
        else if (vectors == 4 && left >= 3) ROWS(3, 4);
        else if (vectors == 4 && left >= 2) ROWS(2, 4);
        else {
            for (int v = 0; v < vectors;) {
#define PART(p) (rows_backward(at, from + v * LANES, list, n, to + v * LANES, 1, p), v += p)
                if (vectors - v >= 10) PART(10);
                else if (vectors - v >= 5) PART(5);
                else if (vectors - v >= 2) PART(2);
                else PART(1);
#undef PART
            }
            ky++;
        }
#undef ROWS
    }
}

/* The weights' gradient from (output, y, row_length) back to (output, channel, y, x). */
static void unpack_gradient(layer at, const float *sums, float *gradient) {
    const int length = row_length(at), area = at.kernel * at.kernel;
    for (int o = 0; o < at.outputs; o++, sums += at.kernel * length)
        for (int tap = 0; tap < area; tap++)
            for (int c = 0; c < at.channels; c++)
                gradient[((int64_t)o * at.channels + c) * area + tap] =
                    sums[tap / at.kernel * length + tap % at.kernel * at.channels + c];
}

/* Weights as the gradient of the input wants them: (output, y, x, channel), channels filled up to narrow vectors. So
   a vector that is read is always one that was written as such. */
static void pack_backward(layer at, const float *weight, float *packed) {
    const int lanes = narrow_rounded(at.channels), area = at.kernel * at.kernel;
    for (int o = 0; o < at.outputs; o++)
        for (int tap = 0; tap < area; tap++)
            for (int c = 0; c < lanes; c++)
                *packed++ = c < at.channels ? weight[((int64_t)o * at.channels + c) * area + tap] : 0;
}

/* Adds to the gradient of the input: (y, x, channel), channels filled up likewise. */
INLINE void input_backward(layer at, const float *packed, const entry *list, int n, float *input) {
    const int lanes = narrow_rounded(at.channels), length = at.kernel * lanes;
    for (int e = 0; e < n; e++) {
        const float g = list[e].gradient;
        const float *w = packed;
        float *to = input + (int64_t)list[e].pixel * lanes;
        for (int ky = 0; ky < at.kernel; ky++, to += at.width * lanes, w += length) {
            if (lanes % LANES == 0)
                for (int i = 0; i < length; i += LANES) store(to + i, load(to + i) + g * load(w + i));
            else
                for (int i = 0; i < length; i += NARROW)
                    *(narrow_anywhere *)(to + i) += g * *(const narrow_anywhere *)(w + i);
        }
    }
}

#endif
