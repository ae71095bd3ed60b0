/* Convolution, the maximum of 2 x 2 and ReLU as one operation, forward, on one sample.

The four sums of a window stay in registers, and only their maximum and the pixel it came from are written: the output
of the convolution itself never exists. There are two ways to fill a vector, and the fuller one is taken:

  by outputs  The lanes are output channels. The sample is laid out channels last, with its margin of zeros: pixel
              (y, x) is at (y * width + x) * channels, so the taps of one row of a kernel are neighbours.
  by columns  The lanes are neighbouring windows. The sample is laid out in planes whose rows have the even columns
              first and the odd ones after them, so the taps of neighbouring windows are neighbours. */
#ifndef AFBS_CONV_H
#define AFBS_CONV_H

#include "vector.h"

typedef struct {
    int channels, height, width; /* of the input, its margin included */
    int kernel, outputs;
    int rows, columns; /* of the output */
} layer;

/* Where a forward pass writes: value and pixel of an output's window are at output * of_output + window * of_window.
   The pixel is -1 where ReLU leaves nothing: no gradient passes there. */
typedef struct {
    float *values;
    int32_t *pixels; /* may be missing */
    int64_t of_output, of_window;
} maxima;

INLINE layer layer_of(int channels, int height, int width, int kernel, int outputs) {
    const int rows = (height - kernel + 1) / 2, columns = (width - kernel + 1) / 2;
    return (layer){channels, height, width, kernel, outputs, rows, columns};
}

INLINE int64_t pixels(layer at) { return (int64_t)at.height * at.width; }
INLINE int windows(layer at) { return at.rows * at.columns; }
INLINE int half_width(layer at) { return (at.width + 1) / 2; }

/* Columns waste the lanes beyond the last window of a row, outputs those beyond the last output. */
INLINE int by_columns(layer at) { return at.columns * rounded(at.outputs) > at.outputs * rounded(at.columns); }

/* Vectors may read past the last pixel, and write past the last window. */
INLINE int64_t laid_length(layer at) { return (pixels(at) * at.channels + 2 * LANES - 1) / LANES * LANES; }
INLINE int64_t split_length(layer at) {
    return ((int64_t)at.channels * at.height * 2 * half_width(at) + 3 * LANES - 1) / LANES * LANES;
}
INLINE int64_t maxima_length(layer at) {
    return by_columns(at) ? (int64_t)at.outputs * (windows(at) + LANES) : (int64_t)rounded(at.outputs) * windows(at);
}
INLINE int64_t packed_length(layer at) { return (int64_t)at.kernel * at.kernel * at.channels * rounded(at.outputs); }

INLINE maxima maxima_of(layer at, float *values, int32_t *from) {
    if (by_columns(at)) return (maxima){values, from, windows(at) + LANES, 1};
    return (maxima){values, from, 1, rounded(at.outputs)};
}

/* From (channel, y, x) to channels last. The margin and what lies behind the sample become zero. */
static void lay_out(layer at, const float *image, int margin, float *out) {
    const int height = at.height - 2 * margin, width = at.width - 2 * margin, row = at.width * at.channels;
    memset(out, 0, laid_length(at) * sizeof(float));
    out += (int64_t)margin * (row + at.channels);
    for (int c = 0; c < at.channels; c++)
        for (int y = 0; y < height; y++, image += width)
            for (int x = 0; x < width; x++) out[(int64_t)y * row + x * at.channels + c] = image[x];
}

/* From (channel, y, x) to planes of even and odd columns. */
static void split_columns(layer at, const float *image, int margin, float *out) {
    const int height = at.height - 2 * margin, width = at.width - 2 * margin, half = half_width(at);
    memset(out, 0, split_length(at) * sizeof(float));
    for (int c = 0; c < at.channels; c++)
        for (int y = 0; y < height; y++, image += width) {
            float *row = out + ((int64_t)c * at.height + y + margin) * 2 * half;
            float *same = row + margin / 2 + margin % 2 * half, *other = row + (margin + 1) / 2 + (margin + 1) % 2 * half;
            for (int x = 0; x < width / 2; x++) same[x] = image[2 * x], other[x] = image[2 * x + 1];
            if (width % 2) same[width / 2] = image[width - 1];
        }
}

/* Weights (output, channel, y, x) as the forward pass wants them: (block of outputs, y, x, channel, output), or for
   columns (channel, y, x, output). */
static void pack_forward(layer at, const float *weight, float *packed) {
    const int area = at.kernel * at.kernel;
    if (by_columns(at)) {
        for (int tap = 0; tap < at.channels * area; tap++)
            for (int o = 0; o < at.outputs; o++) *packed++ = weight[(int64_t)o * at.channels * area + tap];
        return;
    }
    for (int first = 0; first < at.outputs; first += LANES)
        for (int tap = 0; tap < area; tap++)
            for (int c = 0; c < at.channels; c++)
                for (int o = first; o < first + LANES; o++)
                    *packed++ = o < at.outputs ? weight[((int64_t)o * at.channels + c) * area + tap] : 0;
}

/* The largest of four sums, the first of equals and the last NaN, as torch has it; then ReLU. */
INLINE void pool(const vec sums[4], ints pixel, int width, float *value, int32_t *from) {
    vec best = sums[0];
    ints place = pixel;
    UNROLLED for (int q = 1; q < 4; q++) {
        const ints taken = (sums[q] > best) | (sums[q] != sums[q]);
        best = where(taken, sums[q], best);
        place = where_ints(taken, pixel + (q / 2 * width + q % 2), place);
    }
    const ints dead = best <= splat(0);
    store(value, where(dead, splat(0), best));
    if (from) store_ints(from, place | dead);
}

/* One vector of outputs for `n` neighbouring windows. */
INLINE void few_windows(layer at, const float *x, int pixel, const float *w, const float *bias, float *out,
                        int32_t *from, int64_t step, const int n) {
    const int row = at.width * at.channels;
    vec sums[5][4];
    UNROLLED for (int i = 0; i < 4 * n; i++) sums[i / 4][i % 4] = load(bias);
    for (int ky = 0; ky < at.kernel; ky++) {
        const float *first = x + (int64_t)(pixel + ky * at.width) * at.channels, *second = first + row;
        ROLLED for (int tap = 0; tap < at.kernel * at.channels; tap++, w += LANES) {
            const vec weights = load(w);
            UNROLLED for (int i = 0; i < 4 * n; i++) {
                const int column = (2 * (i / 4) + i % 2) * at.channels + tap;
                sums[i / 4][i % 4] += splat(i & 2 ? second[column] : first[column]) * weights;
            }
        }
    }
    UNROLLED for (int i = 0; i < n; i++)
        pool(sums[i], splat_int(pixel + 2 * i), at.width, out + i * step, from ? from + i * step : 0);
}

INLINE void forward_by_outputs(layer at, const float *x, const float *packed, const float *bias, maxima to) {
    for (int o = 0; o < at.outputs; o += LANES, packed += at.kernel * at.kernel * at.channels * LANES)
        for (int y = 0; y < at.rows; y++)
            for (int c = 0; c < at.columns;) {
                const int pixel = 2 * (y * at.width + c), left = at.columns - c;
                const int64_t place = (int64_t)(y * at.columns + c) * to.of_window + o;
                float *out = to.values + place;
                int32_t *from = to.pixels ? to.pixels + place : 0;
#define WINDOWS(n) (few_windows(at, x, pixel, packed, bias + o, out, from, to.of_window, n), c += n)
                if (REGISTERS == 32 && left >= 5) WINDOWS(5);
                else if (left >= 3) WINDOWS(3);
                else if (left == 2) WINDOWS(2);
                else WINDOWS(1);
#undef WINDOWS
            }
}

/* A vector of windows for `n` outputs from `o` on. */
INLINE void few_outputs(layer at, const float *x, int y, int column, const float *packed, const float *bias, int o,
                        maxima to, const int n) {
    const int half = half_width(at), row = 2 * half;
    vec sums[6][4];
    ints pixel;
    UNROLLED for (int i = 0; i < n; i++) UNROLLED for (int q = 0; q < 4; q++) sums[i][q] = splat(bias[o + i]);
    const float *w = packed + o;
    /* Of the even and the odd windows' columns in a row: two lists, or the compiler sees that one is the next of the
       other and keeps the values, for which there is no register. */
    int64_t places[2][8];
    for (int kx = 0; kx < at.kernel; kx++)
        for (int odd = 0; odd < 2; odd++) places[odd][kx] = (kx + odd) / 2 + (kx + odd) % 2 * half;
    for (int c = 0; c < at.channels; c++)
        for (int ky = 0; ky < at.kernel; ky++) {
            const float *first = x + ((int64_t)c * at.height + 2 * y + ky) * row + column, *second = first + row;
            TAPS for (int kx = 0; kx < at.kernel; kx++, w += at.outputs) {
                vec weights[6];
                UNROLLED for (int i = 0; i < n; i++) weights[i] = splat(w[i]);
                UNROLLED for (int q = 0; q < 4; q++) {
                    const vec value = load((q / 2 ? second : first) + places[q % 2][kx]);
                    UNROLLED for (int i = 0; i < n; i++) sums[i][q] += weights[i] * value;
                }
            }
        }
    UNROLLED for (int lane = 0; lane < LANES; lane++) pixel[lane] = 2 * (y * at.width + column + lane);
    UNROLLED for (int i = 0; i < n; i++) {
        const int64_t place = (o + i) * to.of_output + y * at.columns + column;
        pool(sums[i], pixel, at.width, to.values + place, to.pixels ? to.pixels + place : 0);
    }
}

INLINE void forward_by_columns(layer at, const float *x, const float *packed, const float *bias, maxima to) {
    for (int y = 0; y < at.rows; y++)
        for (int column = 0; column < at.columns; column += LANES)
            for (int o = 0; o < at.outputs;) {
                const int left = at.outputs - o;
#define OUTPUTS(n) (few_outputs(at, x, y, column, packed, bias, o, to, n), o += n)
                if (REGISTERS == 32 && left >= 6) OUTPUTS(6);
                else if (left >= 3) OUTPUTS(3);
                else if (left == 2) OUTPUTS(2);
                else OUTPUTS(1);
#undef OUTPUTS
            }
}

#endif
