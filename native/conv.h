/* Convolution, the maximum of 2 x 2 and ReLU as one operation, on one sample.

A sample is laid out channels last, with its margin of zeros: pixel (y, x) is at (y * width + x) * channels. So the
taps of one row of a kernel are neighbours in memory, whatever the number of channels.

Forward, the lanes of a vector are output channels. The four sums of a window stay in registers, and only their maximum
and the pixel it came from are written: the output of the convolution itself never exists.

Backward, the gradient goes where the maximum came from, so a channel's gradient is a short list of (gradient, pixel).
What is exactly zero adds nothing and is left out, unless infinity or NaN is about: then 0 times that is NaN, and the
list holds every pixel that a plain convolution would multiply. */
#ifndef AFBS_CONV_H
#define AFBS_CONV_H

#include "vector.h"

typedef struct {
    int channels, height, width; /* of the input, its margin included */
    int kernel, outputs;
    int rows, columns; /* of the output */
} layer;

typedef struct {
    float gradient;
    int32_t pixel;
} entry;

INLINE layer layer_of(int channels, int height, int width, int kernel, int outputs) {
    return (layer){channels, height,           width, kernel, outputs, (height - kernel + 1) / 2,
                   (width - kernel + 1) / 2};
}

/* The lanes' length of a kernel's row: what a vector reads beyond it is never used. */
INLINE int row_length(layer at) { return round_up(at.kernel * at.channels); }
INLINE int64_t pixels(layer at) { return (int64_t)at.height * at.width; }
INLINE int windows(layer at) { return at.rows * at.columns; }
/* Vectors may read past the last pixel. */
INLINE int64_t laid_length(layer at) { return (pixels(at) * at.channels + 2 * LANES - 1) / LANES * LANES; }
INLINE int64_t packed_length(layer at) {
    return (int64_t)at.kernel * at.kernel * at.channels * round_up(at.outputs);
}
INLINE int64_t longest_list(layer at) {
    return (int64_t)(at.height - at.kernel + 1) * (at.width - at.kernel + 1) + 1;
}

/* From channels, rows, columns to channels last; `margin` stays as it is, zero. */
static void lay_out(const float *image, int channels, int height, int width, int margin, float *out) {
    const int row = (width + 2 * margin) * channels;
    out += margin * (row + channels);
    for (int c = 0; c < channels; c++)
        for (int y = 0; y < height; y++, image += width)
            for (int x = 0; x < width; x++) out[(int64_t)y * row + x * channels + c] = image[x];
}

/* Weights (output, channel, y, x) as blocks of sixteen outputs, the last of eight or sixteen: (y, x, channel, output). */
static void pack_forward(layer at, const float *weight, float *packed) {
    const int lanes = round_up(at.outputs), area = at.kernel * at.kernel;
    for (int first = 0; first < lanes; first += 2 * LANES) {
        const int block = at_most(lanes - first, 2 * LANES);
        for (int tap = 0; tap < area; tap++)
            for (int c = 0; c < at.channels; c++)
                for (int o = first; o < first + block; o++)
                    *packed++ = o < at.outputs ? weight[((int64_t)o * at.channels + c) * area + tap] : 0;
    }
}

/* `n` neighbouring windows, `m` vectors of outputs. `step` is the distance of two windows in `out` and `from`. */
INLINE void windows_forward(layer at, const float *x, int pixel, const float *w, const float *bias, float *out,
                            int out_step, int32_t *from, int from_step, v8 *wild, const int n, const int m) {
    const int row = at.width * at.channels;
    v8 sums[12][2];
    UNROLLED for (int i = 0; i < 4 * n; i++) UNROLLED for (int v = 0; v < m; v++)
        sums[i][v] = load(bias + v * LANES);
    for (int ky = 0; ky < at.kernel; ky++) {
        const float *first = x + (int64_t)(pixel + ky * at.width) * at.channels, *second = first + row;
        ROLLED for (int tap = 0; tap < at.kernel * at.channels; tap++, w += m * LANES) {
            v8 weights[2];
            UNROLLED for (int v = 0; v < m; v++) weights[v] = load(w + v * LANES);
            UNROLLED for (int i = 0; i < 4 * n; i++) {
                const int column = (2 * (i / 4) + i % 2) * at.channels + tap;
                const v8 value = splat(i & 2 ? second[column] : first[column]);
                UNROLLED for (int v = 0; v < m; v++) sums[i][v] += value * weights[v];
            }
        }
    }
    UNROLLED for (int i = 0; i < n; i++) UNROLLED for (int v = 0; v < m; v++) {
        v8 best = sums[4 * i][v];
        i8 place = splat_int(pixel + 2 * i);
        UNROLLED for (int q = 1; q < 4; q++) {
            const v8 next = sums[4 * i + q][v];
            const i8 taken = (next > best) | (next != next);
            best = where(taken, next, best);
            place = where_ints(taken, splat_int(pixel + 2 * i + q / 2 * at.width + q % 2), place);
        }
        best = relu(best);
        *wild += best * 0.0f;
        store(out + i * out_step + v * LANES, best);
        if (from) store_ints(from + i * from_step + v * LANES, place);
    }
}

/* All windows and outputs: `out` and `from` are (window, output). A vector may be written past an output's last, so
   windows are written in order. `from` may be missing. The result is NaN if an output is not finite, else zero. */
INLINE float layer_forward(layer at, const float *x, const float *packed, const float *bias, float *out, int out_step,
                           int32_t *from) {
    const int lanes = round_up(at.outputs), taps = at.kernel * at.kernel * at.channels;
    v8 wild = splat(0);
    for (int o = 0; o < lanes; o += 2 * LANES) {
        const int wide = lanes - o > LANES;
        for (int y = 0; y < at.rows; y++)
            for (int c = 0; c < at.columns;) {
                const int window = y * at.columns + c, pixel = 2 * (y * at.width + c), left = at.columns - c;
                float *to = out + (int64_t)window * out_step + o;
                int32_t *place = from ? from + (int64_t)window * lanes + o : 0;
#define WINDOWS(n, m) \
    (windows_forward(at, x, pixel, packed, bias + o, to, out_step, place, lanes, &wild, n, m), c += n)
                if (wide) WINDOWS(1, 2);
                else if (left >= 3) WINDOWS(3, 1);
                else if (left == 2) WINDOWS(2, 1);
                else WINDOWS(1, 1);
#undef WINDOWS
            }
        packed += (int64_t)taps * at_most(lanes - o, 2 * LANES);
    }
    float sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += wild[lane];
    return sum;
}

/* ReLU passes the gradient on where its value is not zero (or below, before it). */
static void mask(const float *values, const float *gradient, float *masked, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(masked + i, where(load(values + i) <= splat(0), splat(0), load(gradient + i)));
    for (; i < n; i++) masked[i] = values[i] <= 0 ? 0 : gradient[i];
}

/* The gradient of one output, masked, as a list. That of window i is at i * step. */
INLINE int list_gradient(layer at, const float *gradient, int step, const int32_t *from, entry *list) {
    const int lanes = round_up(at.outputs), count = windows(at);
    int n = 0;
    for (int i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, gradient + i * step, sizeof bits);
        list[n] = (entry){gradient[i * step], from[i * lanes]};
        n += bits << 1 != 0;
    }
    return n;
}

/* The same with every pixel a plain convolution looks at, zero or not. */
static int list_everything(layer at, const float *gradient, int step, const int32_t *from, entry *list) {
    const int lanes = round_up(at.outputs);
    int n = 0;
    for (int y = 0; y <= at.height - at.kernel; y++)
        for (int x = 0; x <= at.width - at.kernel; x++) {
            const int pixel = y * at.width + x, i = y / 2 * at.columns + x / 2;
            const int inside = y < 2 * at.rows && x < 2 * at.columns;
            list[n++] = (entry){inside && from[i * lanes] == pixel ? gradient[i * step] : 0, pixel};
        }
    return n;
}

INLINE float list_total(const entry *list, int n) {
    float sums[4] = {0, 0, 0, 0};
    for (int e = 0; e < n; e++) sums[e % 4] += list[e].gradient;
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

INLINE void rows_backward(layer at, const float *x, const entry *list, int n, float *sums, const int rows,
                          const int vectors) {
    const int row = at.width * at.channels, length = row_length(at);
    v8 kept[12];
    UNROLLED for (int i = 0; i < rows * vectors; i++) kept[i] = splat(0);
    for (int e = 0; e < n; e++) {
        const v8 g = splat(list[e].gradient);
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

/* Weights as the gradient of the input wants them: (output, y, x, channel), channels filled up to whole vectors. */
static void pack_backward(layer at, const float *weight, float *packed) {
    const int lanes = round_up(at.channels), area = at.kernel * at.kernel;
    for (int o = 0; o < at.outputs; o++)
        for (int tap = 0; tap < area; tap++)
            for (int c = 0; c < lanes; c++)
                *packed++ = c < at.channels ? weight[((int64_t)o * at.channels + c) * area + tap] : 0;
}

/* Adds to the gradient of the input: (y, x, channel), channels filled up to whole vectors. */
INLINE void input_backward(layer at, const float *packed, const entry *list, int n, float *input) {
    const int lanes = round_up(at.channels), length = at.kernel * lanes;
    for (int e = 0; e < n; e++) {
        const v8 g = splat(list[e].gradient);
        const float *w = packed;
        float *to = input + (int64_t)list[e].pixel * lanes;
        for (int ky = 0; ky < at.kernel; ky++, to += at.width * lanes, w += length)
            for (int i = 0; i < length; i += LANES) store(to + i, load(to + i) + g * load(w + i));
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

#endif
