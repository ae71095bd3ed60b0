/* The fused layer where there are many channels, in planes of as many channels as a vector has lanes.

Pixel (y, x) of a plane is at (y * width + x) * LANES. So the compiler knows the distance of neighbouring pixels, every
vector lies in one cache line, and a plane stays in the innermost cache while all outputs pass over it: backward, planes
are the outer loop.

  forward   Lanes are outputs. A value that is loaded is multiplied with two vectors of them.
  weights   As with few channels, but all taps of an output and a plane are summed at once, over as many samples as fit
            the cache together.
  input     The outputs whose maximum is at one pixel are summed in registers, and only the sum is added to what lies
            around that pixel. */
#ifndef AFBS_PLANES_H
#define AFBS_PLANES_H

#include "careful.h"

/* The gradient of an output whose maximum is at some pixel; and where such outputs begin that share a pixel. */
typedef struct {
    float gradient;
    int32_t output;
} share;
typedef struct {
    int32_t first, pixel;
} meeting;

/* Outputs whose weights stay in the innermost cache together, and floats of a plane that do. */
enum { OUTPUTS_TOGETHER = 64, FLOATS_TOGETHER = 6144 };

/* Filled up to whole vectors, neither channels nor outputs may waste more than a quarter of them. */
INLINE int by_planes(layer at) {
    return at.channels >= 12 && 4 * at.channels >= 3 * rounded(at.channels) && 4 * at.outputs >= 3 * rounded(at.outputs);
}

INLINE int planes_of(layer at) { return rounded(at.channels) / LANES; }
INLINE int64_t plane_length(layer at) { return pixels(at) * LANES; }
INLINE layer plane_layer(layer at) {
    at.channels = LANES;
    return at;
}

/* Samples that are walked backward together. */
INLINE int samples_together(layer at) {
    const int64_t fit = FLOATS_TOGETHER / plane_length(at);
    return fit < 1 ? 1 : at_most((int)fit, 16);
}

INLINE int64_t planes_packed_length(layer at) {
    return (int64_t)at.kernel * at.kernel * rounded(at.channels) * rounded(at.outputs);
}
INLINE maxima planes_maxima(layer at, float *values, int32_t *from) {
    return (maxima){values, from, 1, rounded(at.outputs)};
}
INLINE int64_t planes_maxima_length(layer at) { return (int64_t)rounded(at.outputs) * windows(at); }

/* From (channel, y, x) to planes that are `step` apart. The margin and missing channels become zero. */
static void lay_out_planes(layer at, const float *image, int margin, float *out, int64_t step) {
    const int height = at.height - 2 * margin, width = at.width - 2 * margin;
    for (int p = 0; p < planes_of(at); p++, out += step) {
        memset(out, 0, plane_length(at) * sizeof(float));
        for (int lane = 0; lane < at_most(at.channels - p * LANES, LANES); lane++) {
            float *row = out + (int64_t)margin * (at.width + 1) * LANES + lane;
            for (int y = 0; y < height; y++, image += width, row += at.width * LANES)
                for (int x = 0; x < width; x++) row[x * LANES] = image[x];
        }
    }
}

/* The way back, without the margin. */
static void take_in_planes(layer at, const float *planes, int margin, float *image, int64_t step) {
    const int height = at.height - 2 * margin, width = at.width - 2 * margin;
    for (int c = 0; c < at.channels; c++) {
        const float *row = planes + c / LANES * step + (int64_t)margin * (at.width + 1) * LANES + c % LANES;
        for (int y = 0; y < height; y++, image += width, row += at.width * LANES)
            for (int x = 0; x < width; x++) image[x] = row[x * LANES];
    }
}

/* Weights (output, channel, y, x) as (vector of outputs, plane, y, x, channel, output). */
static void pack_planes_forward(layer at, const float *weight, float *packed) {
    const int area = at.kernel * at.kernel, channels = rounded(at.channels);
    for (int first = 0; first < at.outputs; first += LANES)
        for (int plane = 0; plane < channels; plane += LANES)
            for (int tap = 0; tap < area; tap++)
                for (int c = plane; c < plane + LANES; c++)
                    for (int o = first; o < first + LANES; o++)
                        *packed++ = o < at.outputs && c < at.channels
                                        ? weight[((int64_t)o * at.channels + c) * area + tap]
                                        : 0;
}

/* `vectors` of outputs, whose weights are `block` apart, for `n` neighbouring windows. */
INLINE void windows_by_planes(layer at, const float *x, int pixel, const float *w, int64_t block, const float *bias,
                              float *out, int32_t *from, int64_t step, const int n, const int vectors) {
    const int row = at.width * LANES;
    vec sums[5][2][4];
    UNROLLED for (int i = 0; i < 4 * n; i++) UNROLLED for (int v = 0; v < vectors; v++)
        sums[i / 4][v][i % 4] = load(bias + v * LANES);
    for (int plane = 0; plane < planes_of(at); plane++, x += plane_length(at))
        for (int ky = 0; ky < at.kernel; ky++) {
            const float *first = x + (int64_t)(pixel + ky * at.width) * LANES, *second = first + row;
            ROLLED for (int tap = 0; tap < at.kernel * LANES; tap++, w += LANES) {
                vec weights[2];
                UNROLLED for (int v = 0; v < vectors; v++) weights[v] = load(w + v * block);
                UNROLLED for (int i = 0; i < 4 * n; i++) {
                    const vec value = splat((i & 2 ? second : first)[(2 * (i / 4) + i % 2) * LANES + tap]);
                    UNROLLED for (int v = 0; v < vectors; v++) sums[i / 4][v][i % 4] += value * weights[v];
                }
            }
        }
    UNROLLED for (int i = 0; i < n; i++) UNROLLED for (int v = 0; v < vectors; v++)
        pool(sums[i][v], splat_int(pixel + 2 * i), at.width, out + i * step + v * LANES,
             from ? from + i * step + v * LANES : 0);
}

INLINE void forward_by_planes(layer at, const float *x, const float *packed, const float *bias, maxima to) {
    const int64_t block = (int64_t)at.kernel * at.kernel * rounded(at.channels) * LANES;
    for (int o = 0; o < at.outputs;) {
        const int vectors = REGISTERS == 32 && at.outputs - o > LANES ? 2 : 1;
        for (int y = 0; y < at.rows; y++)
            for (int c = 0; c < at.columns;) {
                const int pixel = 2 * (y * at.width + c), left = at.columns - c;
                const int64_t place = (int64_t)(y * at.columns + c) * to.of_window + o;
                float *out = to.values + place;
                int32_t *from = to.pixels ? to.pixels + place : 0;
#define WINDOWS(n, v) (windows_by_planes(at, x, pixel, packed, block, bias + o, out, from, to.of_window, n, v), c += n)
                if (vectors == 2 && left >= 3) WINDOWS(3, 2);
                else if (vectors == 2 && left == 2) WINDOWS(2, 2);
                else if (vectors == 2) WINDOWS(1, 2);
                else if (REGISTERS == 32 && left >= 5) WINDOWS(5, 1);
                else if (left >= 3) WINDOWS(3, 1);
                else if (left == 2) WINDOWS(2, 1);
                else WINDOWS(1, 1);
#undef WINDOWS
            }
        o += vectors * LANES;
        packed += vectors * block;
    }
}

/* Rows of a kernel whose taps are summed in registers together when the input's gradient is made: few enough that their
   weights stay in the innermost cache. */
INLINE int rows_together(layer at) { return at.kernel == 3 ? 3 : 1; }

/* Weights as the input's gradient wants them: (plane, rows that go together, output, their taps, channel). */
static void pack_planes_backward(layer at, const float *weight, float *packed) {
    const int area = at.kernel * at.kernel, taps = rows_together(at) * at.kernel;
    for (int plane = 0; plane < at.channels; plane += LANES)
        for (int first = 0; first < area; first += taps)
            for (int o = 0; o < at.outputs; o++)
                for (int tap = first; tap < first + taps; tap++)
                    for (int c = plane; c < plane + LANES; c++)
                        *packed++ = c < at.channels ? weight[((int64_t)o * at.channels + c) * area + tap] : 0;
}

/* Adds to a plane of the input's gradient what `rows` rows of the kernel, from row `ky` on, carry there. */
INLINE void meetings_backward(layer at, const float *packed, const share *shares, const meeting *meetings, int n, int ky,
                              float *input, const int rows) {
    const int taps = rows * at.kernel;
    input += (int64_t)ky * at.width * LANES;
    for (int m = 0; m < n; m++) {
        vec kept[9];
        UNROLLED for (int i = 0; i < 9; i++) kept[i] = splat(0);
        for (int e = meetings[m].first; e < meetings[m + 1].first; e++) {
            const vec g = splat(shares[e].gradient);
            const float *w = packed + (int64_t)shares[e].output * taps * LANES;
            UNROLLED for (int i = 0; i < taps; i++) kept[i] += g * load(w + i * LANES);
        }
        float *to = input + (int64_t)meetings[m].pixel * LANES;
        UNROLLED for (int i = 0; i < taps; i++) {
            float *place = to + ((int64_t)(i / at.kernel) * at.width + i % at.kernel) * LANES;
            store(place, load(place) + kept[i]);
        }
    }
}

/* All planes; one is `step` from the next. */
INLINE void input_by_planes(layer at, const float *packed, const share *shares, const meeting *meetings, int n,
                            float *input, int64_t step) {
    const int rows = rows_together(at);
    for (int plane = 0; plane < planes_of(at); plane++, input += step)
        for (int ky = 0; ky < at.kernel; ky += rows, packed += (int64_t)at.outputs * rows * at.kernel * LANES)
            meetings_backward(at, packed, shares, meetings, n, ky, input, rows);
}

/* Who meets at which pixel, among outputs `first` to `last`. Says how many meetings there are; one more is written. */
static int list_meetings(layer at, const float *gradient, maxima of, int first, int last, int64_t sample, share *shares,
                         int *used, meeting *meetings) {
    const int count = windows(at), width = at.width;
    share found[5][OUTPUTS_TOGETHER];
    int n = 0;
    for (int i = 0; i < count; i++) {
        const int corner = 2 * (i / at.columns * width + i % at.columns);
        int sizes[5] = {0};
        for (int o = first; o < last; o++) {
            const int32_t pixel = of.pixels[o * of.of_output + i * of.of_window];
            const int off = pixel - corner, q = pixel < 0 ? 4 : off < 2 ? off : off - width + 2;
            found[q][sizes[q]++] = (share){gradient[(int64_t)o * count + i], o};
        }
        for (int q = 0; q < 4; q++) {
            if (!sizes[q]) continue;
            meetings[n++] = (meeting){*used, (int32_t)(sample * pixels(at)) + corner + q / 2 * width + q % 2};
            memcpy(shares + *used, found[q], sizes[q] * sizeof(share));
            *used += sizes[q];
        }
    }
    meetings[n].first = *used;
    return n;
}

/* `rows` rows of the gradient of one output's weights, from what lies in a plane. */
INLINE void plane_rows_backward(layer at, const float *x, const entry *list, int n, float *sums, const int rows) {
    vec kept[5][5];
    UNROLLED for (int i = 0; i < 25; i++) kept[i / 5][i % 5] = splat(0);
    for (int e = 0; e < n; e++) {
        const vec g = splat(list[e].gradient);
        const float *from = x + (int64_t)list[e].pixel * LANES;
        UNROLLED for (int r = 0; r < rows; r++) {
            UNROLLED for (int v = 0; v < at.kernel; v++) kept[r][v] += g * load(from + v * LANES);
            from += at.width * LANES;
            __asm__("" : "+r"(from)); /* or every place has an address of its own, for which there is no register */
        }
    }
    UNROLLED for (int r = 0; r < rows; r++) UNROLLED for (int v = 0; v < at.kernel; v++) {
        float *to = sums + (r * at.kernel + v) * LANES;
        store(to, load(to) + kept[r][v]);
    }
}

/* Adds to the gradient of one output's weights, which is laid out (y, x, channel). */
INLINE void plane_weights_backward(layer at, const float *x, const entry *list, int n, float *sums) {
    const int row = at.width * LANES, length = at.kernel * LANES;
    if (at.kernel == 3 || REGISTERS == 32) {
        plane_rows_backward(at, x, list, n, sums, at.kernel);
        return;
    }
    for (int ky = 0; ky < 4; ky += 2) plane_rows_backward(at, x + ky * row, list, n, sums + ky * length, 2);
    plane_rows_backward(at, x + 4 * row, list, n, sums + 4 * length, 1);
}

/* The weights' gradient from (plane, output, y, x, channel) back to (output, channel, y, x). */
static void unpack_planes(layer at, const float *sums, float *gradient) {
    const int area = at.kernel * at.kernel;
    for (int plane = 0; plane < at.channels; plane += LANES)
        for (int o = 0; o < at.outputs; o++)
            for (int tap = 0; tap < area; tap++, sums += LANES)
                for (int c = plane; c < at_most(at.channels, plane + LANES); c++)
                    gradient[((int64_t)o * at.channels + c) * area + tap] = sums[c - plane];
}

#endif
