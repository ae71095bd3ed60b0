/* A batch through the fused layer by planes. */
#ifndef AFBS_PLANES_BATCH_H
#define AFBS_PLANES_BATCH_H

#include "kernels.h"
#include "planes.h"
#include "tiles.h"

typedef struct {
    float *packed, *biases, *turned, *laid;
    float *transformed, *tiles, *sums;
} planes_forward_room;

typedef struct {
    float *packed, *sums, *laid, *input;
    entry *lists;
    int32_t *starts; /* of the outputs' lists */
    share *shares;
    meeting *meetings;
} planes_backward_room;

/* Each says how many floats it needs; without a room it only counts. */
static int64_t divide_planes_forward(layer at, float *room, planes_forward_room *w) {
    int64_t used = unused_floats(room);
    w->packed = take(room, &used, planes_packed_length(at));
    w->biases = take(room, &used, rounded(at.outputs));
    w->turned = take(room, &used, planes_maxima_length(at));
    w->laid = take(room, &used, planes_of(at) * plane_length(at));
    w->transformed = take(room, &used, by_tiles(at) ? tile_weights_length(at) : 0);
    w->tiles = take(room, &used, by_tiles(at) ? tile_length(at) : 0);
    w->sums = take(room, &used, by_tiles(at) ? tile_sums_length() : 0);
    return used + LINE;
}

static int64_t divide_planes_backward(layer at, float *room, planes_backward_room *w) {
    const int together = samples_together(at), area = at.kernel * at.kernel;
    const int64_t taps = (int64_t)area * rounded(at.channels) * at.outputs;
    const int64_t most = (int64_t)together * at.outputs * windows(at);
    const int64_t blocks = (at.outputs + OUTPUTS_TOGETHER - 1) / OUTPUTS_TOGETHER;
    const int64_t pixels_met = 4 * blocks * together * windows(at);
    const int64_t longest = longest_list(at), planes = together * planes_of(at) * plane_length(at);
    int64_t used = unused_floats(room);
    w->packed = take(room, &used, taps);
    w->sums = take(room, &used, taps);
    w->laid = take(room, &used, planes);
    w->input = take(room, &used, planes);
    w->lists = (entry *)take(room, &used, 2 * ((most > longest ? most : longest) + 1));
    w->starts = (int32_t *)take(room, &used, at.outputs + 1);
    w->shares = (share *)take(room, &used, 2 * (most > longest ? most : longest));
    w->meetings = (meeting *)take(room, &used, 2 * ((pixels_met > longest ? pixels_met : longest) + 1));
    return used + LINE;
}

INLINE void planes_forward(layer at, int margin, const float *images, int64_t n, const float *weight, const float *bias,
                           float *out, int32_t *from, float *room) {
    const int64_t size = (int64_t)at.channels * (at.height - 2 * margin) * (at.width - 2 * margin);
    const int64_t step = planes_maxima_length(at);
    const int count = windows(at);
    planes_forward_room w;
    divide_planes_forward(at, room, &w);
    const int tiles = by_tiles(at) && !any_extreme(weight, (int64_t)at.outputs * at.channels * at.kernel * at.kernel);
    int packed = 0;
    if (tiles) pack_tiles(at, weight, w.transformed);
    memset(w.biases, 0, rounded(at.outputs) * sizeof(float));
    memcpy(w.biases, bias, at.outputs * sizeof(float));
    for (int64_t i = 0; i < n; i++, images += size) {
        const maxima to = planes_maxima(at, w.turned, from ? from + i * step : 0);
        lay_out_planes(at, images, margin, w.laid, plane_length(at));
        if (tiles && !any_extreme(images, size)) {
            forward_by_tiles(at, w.laid, w.transformed, w.biases, w.tiles, w.sums, to);
        } else {
            if (!packed) pack_planes_forward(at, weight, w.packed);
            packed = 1;
            forward_by_planes(at, w.laid, w.packed, w.biases, to);
        }
        for (int o = 0; o < at.outputs; o++)
            for (int p = 0; p < count; p++) *out++ = w.turned[o * to.of_output + p * to.of_window];
    }
}

/* Samples of one group, which are laid out one after the other in each plane. */
typedef struct {
    const float *gradient;
    const int32_t *from;
    int count;
    int64_t step; /* from plane to plane */
} samples;

INLINE void samples_backward(layer at, samples of, planes_backward_room *w, float *bias_gradient, int of_images) {
    const layer part = plane_layer(at);
    const int area = at.kernel * at.kernel, count = windows(at);
    int entries = 0;
    for (int o = 0; o < at.outputs; o++) {
        w->starts[o] = entries;
        for (int s = 0; s < of.count; s++) {
            const float *gradient = of.gradient + ((int64_t)s * at.outputs + o) * count;
            const int32_t *from = of.from + s * planes_maxima_length(at) + o;
            const int found = list_some(at, gradient, 1, from, rounded(at.outputs), w->lists + entries);
            for (int e = 0; e < found; e++) w->lists[entries + e].pixel += s * (int32_t)pixels(at);
            entries += found;
        }
        bias_gradient[o] += list_total(w->lists + w->starts[o], entries - w->starts[o]);
    }
    w->starts[at.outputs] = entries;
    float *sums = w->sums;
    for (int plane = 0; plane < planes_of(at); plane++)
        for (int o = 0; o < at.outputs; o++, sums += area * LANES)
            plane_weights_backward(part, w->laid + plane * of.step, w->lists + w->starts[o], w->starts[o + 1] - w->starts[o],
                             sums);
    if (!of_images) return;
    int used = 0, met = 0;
    for (int o = 0; o < at.outputs; o += OUTPUTS_TOGETHER)
        for (int s = 0; s < of.count; s++) {
            const maxima maxima = planes_maxima(at, 0, (int32_t *)of.from + s * planes_maxima_length(at));
            met += list_meetings(at, of.gradient + (int64_t)s * at.outputs * count, maxima, o,
                                 at_most(at.outputs, o + OUTPUTS_TOGETHER), s, w->shares, &used, w->meetings + met);
        }
    input_by_planes(at, w->packed, w->shares, w->meetings, met, w->input, of.step);
}

/* One sample of a group, where infinity or NaN is about: every product that a plain convolution would make. */
static void wild_sample_backward(layer at, int margin, samples of, int s, planes_backward_room *w, float *bias_gradient,
                                 int of_images) {
    const layer part = plane_layer(at);
    const int area = at.kernel * at.kernel, count = windows(at);
    const float *gradient = of.gradient + (int64_t)s * at.outputs * count;
    const int careful = margin && any_wild(gradient, (int64_t)at.outputs * count);
    const maxima maxima = planes_maxima(at, 0, (int32_t *)of.from + s * planes_maxima_length(at));
    for (int o = 0; o < at.outputs; o++) {
        const int n = list_gradient(at, 1, gradient + (int64_t)o * count, 1, maxima, o, w->lists);
        bias_gradient[o] += list_total(w->lists, n);
        for (int plane = 0; plane < planes_of(at); plane++) {
            const float *x = w->laid + plane * of.step + s * plane_length(at);
            float *sums = w->sums + ((int64_t)plane * at.outputs + o) * area * LANES;
            if (careful) weights_carefully(part, margin, x, w->lists, n, sums);
            else weights_backward(part, x, w->lists, n, sums);
        }
        if (!of_images) continue;
        for (int e = 0; e < n; e++) {
            w->shares[e] = (share){w->lists[e].gradient, o};
            w->meetings[e] = (meeting){e, w->lists[e].pixel};
        }
        w->meetings[n].first = n;
        input_by_planes(at, w->packed, w->shares, w->meetings, n, w->input + s * plane_length(at), of.step);
    }
}

INLINE void planes_backward(layer at, int margin, const float *images, const int32_t *from, const float *gradient,
                            int64_t n, const float *weight, float *weight_gradient, float *bias_gradient,
                            float *image_gradient, float *room) {
    const int64_t size = (int64_t)at.channels * (at.height - 2 * margin) * (at.width - 2 * margin);
    const int64_t weights = (int64_t)at.outputs * at.channels * at.kernel * at.kernel;
    const int64_t results = (int64_t)at.outputs * windows(at);
    planes_backward_room w;
    divide_planes_backward(at, room, &w);
    if (image_gradient) pack_planes_backward(at, weight, w.packed);
    memset(w.sums, 0, weights / at.channels * rounded(at.channels) * sizeof(float));
    memset(bias_gradient, 0, at.outputs * sizeof(float));
    const int wild_weights = any_wild(weight, weights);
    for (int64_t first = 0; first < n;) {
        const int count = at_most((int)(n - first < 1000 ? n - first : 1000), samples_together(at));
        const samples of = {gradient + first * results, from + first * planes_maxima_length(at), count,
                            count * plane_length(at)};
        const float *group = images + first * size;
        for (int s = 0; s < count; s++)
            lay_out_planes(at, group + s * size, margin, w.laid + s * plane_length(at), of.step);
        if (image_gradient) memset(w.input, 0, planes_of(at) * of.step * sizeof(float));
        if (wild_weights | any_wild(group, count * size) | any_wild(of.gradient, count * results))
            for (int s = 0; s < count; s++)
                wild_sample_backward(at, margin, of, s, &w, bias_gradient, image_gradient != 0);
        else samples_backward(at, of, &w, bias_gradient, image_gradient != 0);
        for (int s = 0; s < count && image_gradient; s++, image_gradient += size)
            take_in_planes(at, w.input + s * plane_length(at), margin, image_gradient, of.step);
        first += count;
    }
    unpack_planes(at, w.sums, weight_gradient);
}

#endif
