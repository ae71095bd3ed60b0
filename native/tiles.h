/* The fused layer forward with fewer multiplications, for many channels and outputs (Lavin and Gray, Fast Algorithms for
Convolutional Neural Networks, arXiv 1509.09308).

The two sums that a window has in one row, d0 g0 + d1 g1 + d2 g2 and d1 g0 + d2 g1 + d3 g2, need four products, not six:

    a = (d0 - d2) g0    b = (d1 + d2) (g0 + g1 + g2) / 2    c = (d2 - d1) (g0 - g1 + g2) / 2    d = (d1 - d3) g2

They are a + b + c and b - c - d. A kernel of five has two more taps, and three more products: (d3 - d4) g3 goes with a,
d4 (g3 + g4) with b, (d4 - d5) g4 with d. The same is done with columns, so a window takes 16 products, not 36, and 49,
not 100, which are summed over the channels in 16 places.

Where pixels are equal, d0 = d1 = ..., both sums are b: equal sums stay equal to the last bit, so a tie remains a tie.
Infinity, NaN and what could become such on this way go another. */
#ifndef AFBS_TILES_H
#define AFBS_TILES_H

#include "planes.h"

enum { WINDOWS_TOGETHER = 6, VECTORS_TOGETHER = REGISTERS == 32 ? 4 : 2, SUMS = 4 };

/* Factors in the order of the sums they belong to, and where those of each sum begin. */
INLINE int factors_of(layer at) { return at.kernel == 3 ? 4 : 7; }
static const int FIRST_FACTOR[2][SUMS + 1] = {{0, 1, 2, 3, 4}, {0, 2, 4, 5, 7}};

/* With few outputs, transforming the input costs more than is won. */
INLINE int by_tiles(layer at) { return by_planes(at) && at.channels >= LANES && at.outputs >= 2 * LANES; }

INLINE int64_t tile_weights_length(layer at) {
    return (int64_t)factors_of(at) * factors_of(at) * rounded(at.channels) * rounded(at.outputs);
}
INLINE int64_t tile_length(layer at) {
    return (int64_t)factors_of(at) * factors_of(at) * rounded(at.channels) * WINDOWS_TOGETHER;
}
INLINE int64_t tile_sums_length(void) { return SUMS * SUMS * WINDOWS_TOGETHER * VECTORS_TOGETHER * LANES; }

/* Numbers whose products could overflow in transformed sums, if not in plain ones; and what is not finite. */
static int any_extreme(const float *values, int64_t n) {
    vec sums = splat(0);
    const int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) sums += load(values + i) * 0x1p73f * 0.0f;
    float sum = 0;
    for (int64_t i = whole; i < n; i++) sum += values[i] * 0x1p73f * 0.0f;
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum != 0;
}

INLINE void transform_weights(const float *g, int step, int kernel, float *u) {
    const float g0 = g[0], g1 = g[step], g2 = g[2 * step];
    const float both = (g0 + g1 + g2) * 0.5f, other = (g0 - g1 + g2) * 0.5f;
    if (kernel == 3) {
        u[0] = g0, u[1] = both, u[2] = other, u[3] = g2;
        return;
    }
    const float g3 = g[3 * step], g4 = g[4 * step];
    u[0] = g0, u[1] = g3, u[2] = both, u[3] = g3 + g4, u[4] = other, u[5] = g2, u[6] = g4;
}

INLINE void transform_input(const vec *d, int step, int kernel, vec *t, int t_step) {
    t[0] = d[0] - d[2 * step];
    if (kernel == 3) {
        t[t_step] = d[step] + d[2 * step];
        t[2 * t_step] = d[2 * step] - d[step];
        t[3 * t_step] = d[step] - d[3 * step];
        return;
    }
    t[t_step] = d[3 * step] - d[4 * step];
    t[2 * t_step] = d[step] + d[2 * step];
    t[3 * t_step] = d[4 * step];
    t[4 * t_step] = d[2 * step] - d[step];
    t[5 * t_step] = d[step] - d[3 * step];
    t[6 * t_step] = d[4 * step] - d[5 * step];
}

/* Weights (output, channel, y, x) as (vector of outputs, factor of rows, factor of columns, channel, output). */
INLINE void pack_tiles(layer at, const float *weight, float *packed) {
    const int kernel = at.kernel, factors = factors_of(at), channels = rounded(at.channels);
    memset(packed, 0, tile_weights_length(at) * sizeof(float));
    for (int o = 0; o < at.outputs; o++)
        for (int c = 0; c < at.channels; c++, weight += kernel * kernel) {
            float rows[5][7], turned[7];
            float *to = packed + ((int64_t)(o / LANES) * factors * factors * channels + c) * LANES + o % LANES;
            UNROLLED for (int y = 0; y < kernel; y++) transform_weights(weight + y * kernel, 1, kernel, rows[y]);
            UNROLLED for (int x = 0; x < factors; x++) {
                transform_weights(&rows[0][x], 7, kernel, turned);
                UNROLLED for (int y = 0; y < factors; y++) to[(int64_t)(y * factors + x) * channels * LANES] = turned[y];
            }
        }
}

/* The tile of one window in one plane. Factor f is at f * step. */
INLINE void transform_tile(layer at, const float *x, float *out, int64_t step) {
    const int kernel = at.kernel, factors = factors_of(at);
    vec rows[6][7];
    UNROLLED for (int y = 0; y <= kernel; y++, x += at.width * LANES) {
        vec d[6];
        UNROLLED for (int i = 0; i <= kernel; i++) d[i] = load(x + i * LANES);
        transform_input(d, 1, kernel, rows[y], 1);
    }
    UNROLLED for (int i = 0; i < factors; i++) {
        vec t[7];
        transform_input(&rows[0][i], 7, kernel, t, 1);
        UNROLLED for (int y = 0; y < factors; y++) store(out + (y * factors + i) * step, t[y]);
    }
}

/* One of the sums, over all channels and the factors that belong to it, for `n` windows and `vectors` of outputs. */
INLINE void sum_tiles(layer at, const float *tiles, const float *w, int64_t block, int a, int b, float *sums, const int n,
                      const int vectors) {
    const int factors = factors_of(at), channels = rounded(at.channels);
    const int *firsts = FIRST_FACTOR[at.kernel == 5];
    vec kept[WINDOWS_TOGETHER][VECTORS_TOGETHER];
    UNROLLED for (int i = 0; i < n; i++) UNROLLED for (int v = 0; v < vectors; v++) kept[i][v] = splat(0);
    for (int y = firsts[a]; y < firsts[a + 1]; y++)
        for (int x = firsts[b]; x < firsts[b + 1]; x++) {
            const float *tile = tiles + (int64_t)(y * factors + x) * channels * WINDOWS_TOGETHER;
            const float *weights = w + (int64_t)(y * factors + x) * channels * LANES;
            for (int plane = 0; plane < channels; plane += LANES, tile += WINDOWS_TOGETHER * LANES)
                ROLLED for (int c = 0; c < LANES; c++, weights += LANES) {
                    vec of[VECTORS_TOGETHER];
                    UNROLLED for (int v = 0; v < vectors; v++) of[v] = load(weights + v * block);
                    UNROLLED for (int i = 0; i < n; i++) {
                        const vec value = splat(tile[i * LANES + c]);
                        UNROLLED for (int v = 0; v < vectors; v++) kept[i][v] += value * of[v];
                    }
                }
        }
    UNROLLED for (int i = 0; i < n; i++) UNROLLED for (int v = 0; v < vectors; v++)
        store(sums + ((int64_t)(i * VECTORS_TOGETHER + v) * SUMS * SUMS + a * SUMS + b) * LANES, kept[i][v]);
}

/* From the 16 sums of a window to its four, and to their maximum. */
INLINE void pool_tiles(const float *sums, const float *bias, int pixel, int width, float *out, int32_t *from) {
    vec rows[SUMS][2], window[4];
    UNROLLED for (int a = 0; a < SUMS; a++) {
        const vec first = load(sums + a * SUMS * LANES), both = load(sums + (a * SUMS + 1) * LANES);
        const vec other = load(sums + (a * SUMS + 2) * LANES), last = load(sums + (a * SUMS + 3) * LANES);
        rows[a][0] = both + (other + first);
        rows[a][1] = both - (other + last);
    }
    UNROLLED for (int x = 0; x < 2; x++) {
        window[x] = rows[1][x] + (rows[2][x] + rows[0][x]) + load(bias);
        window[2 + x] = rows[1][x] - (rows[2][x] + rows[3][x]) + load(bias);
    }
    pool(window, splat_int(pixel), width, out, from);
}

INLINE void some_tiles(layer at, const float *tiles, const float *w, int64_t block, float *sums, const int n,
                       const int vectors) {
    for (int a = 0; a < SUMS; a++)
        for (int b = 0; b < SUMS; b++) sum_tiles(at, tiles, w, block, a, b, sums, n, vectors);
}

INLINE void forward_by_tiles(layer at, const float *x, const float *packed, const float *bias, float *tiles, float *sums,
                             maxima to) {
    const int factors = factors_of(at), channels = rounded(at.channels), count = windows(at);
    const int64_t block = (int64_t)factors * factors * channels * LANES, step = (int64_t)channels * WINDOWS_TOGETHER;
    for (int first = 0; first < count;) {
        const int left = count - first, n = left >= WINDOWS_TOGETHER ? WINDOWS_TOGETHER : left >= 3 ? 3 : 1;
        int corners[WINDOWS_TOGETHER];
        for (int i = 0; i < n; i++) {
            corners[i] = 2 * ((first + i) / at.columns * at.width + (first + i) % at.columns);
            for (int plane = 0; plane < planes_of(at); plane++)
                transform_tile(at, x + plane * plane_length(at) + (int64_t)corners[i] * LANES,
                               tiles + (int64_t)(plane * WINDOWS_TOGETHER + i) * LANES, step);
        }
        for (int o = 0; o < at.outputs;) {
            const float *w = packed + o / LANES * block;
            const int vectors = at_most((rounded(at.outputs) - o) / LANES, VECTORS_TOGETHER) & ~1;
#define SOME(n, v) some_tiles(at, tiles, w, block, sums, n, v)
            if (vectors == 4 && n == WINDOWS_TOGETHER) SOME(WINDOWS_TOGETHER, VECTORS_TOGETHER);
            else if (vectors == 4 && n == 3) SOME(3, VECTORS_TOGETHER);
            else if (vectors == 4) SOME(1, VECTORS_TOGETHER);
            else if (vectors == 2 && n == WINDOWS_TOGETHER) SOME(WINDOWS_TOGETHER, 2);
            else if (vectors == 2 && n == 3) SOME(3, 2);
            else if (vectors == 2) SOME(1, 2);
            else if (n == WINDOWS_TOGETHER) SOME(WINDOWS_TOGETHER, 1);
            else if (n == 3) SOME(3, 1);
            else SOME(1, 1);
#undef SOME
            const int done = vectors ? vectors : 1;
            for (int i = 0; i < n; i++)
                for (int v = 0; v < done; v++) {
                    const int64_t place = (first + i) * to.of_window + o + v * LANES;
                    pool_tiles(sums + (int64_t)(i * VECTORS_TOGETHER + v) * SUMS * SUMS * LANES, bias + o + v * LANES,
                               corners[i], at.width, to.values + place, to.pixels ? to.pixels + place : 0);
                }
            o += done * LANES;
        }
        first += n;
    }
}

#endif
