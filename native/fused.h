/* The fused layer on a batch, as torch lays it out: (sample, channel, row, column). */
#ifndef AFBS_FUSED_H
#define AFBS_FUSED_H

#include "careful.h"
#include "kernels.h"
#include "planes_batch.h"

INLINE layer layer_at(const afbs_layer_shape *shape) {
    return layer_of(shape->channels, shape->height + 2 * shape->margin, shape->width + 2 * shape->margin, shape->kernel,
                    shape->outputs);
}

static int64_t layer_maxima(const afbs_layer_shape *shape) {
    const layer at = layer_at(shape);
    return by_planes(at) ? planes_maxima_length(at) : maxima_length(at);
}

typedef struct {
    float *packed, *biases, *turned, *laid;
} forward_room;

typedef struct {
    float *packed, *sums, *input, *laid;
    entry *list;
} backward_room;

/* Each says how many floats it needs; without a room it only counts. */
static int64_t divide_forward(layer at, float *room, forward_room *w) {
    int64_t used = unused_floats(room);
    w->packed = take(room, &used, packed_length(at));
    w->biases = take(room, &used, rounded(at.outputs));
    w->turned = take(room, &used, by_planes(at) ? planes_maxima_length(at) : maxima_length(at));
    w->laid = take(room, &used, laid_length(at) > split_length(at) ? laid_length(at) : split_length(at));
    return used + LINE;
}

static int64_t divide_backward(layer at, float *room, backward_room *w) {
    int64_t used = unused_floats(room);
    w->packed = take(room, &used, (int64_t)at.outputs * at.kernel * at.kernel * narrow_rounded(at.channels));
    w->sums = take(room, &used, (int64_t)at.outputs * at.kernel * row_length(at));
    w->input = take(room, &used, pixels(at) * narrow_rounded(at.channels));
    w->laid = take(room, &used, laid_length(at));
    w->list = (entry *)take(room, &used, 2 * longest_list(at));
    return used + LINE;
}

static int64_t layer_room(const afbs_layer_shape *shape) {
    const layer at = layer_at(shape);
    forward_room forward;
    backward_room backward;
    planes_forward_room planes_forward;
    planes_backward_room planes_backward;
    const int64_t needs[] = {
        divide_forward(at, 0, &forward),
        by_planes(at) ? divide_planes_forward(at, 0, &planes_forward) : 0,
        by_planes(at) ? divide_planes_backward(at, 0, &planes_backward) : divide_backward(at, 0, &backward),
    };
    int64_t most = 0;
    for (int i = 0; i < 3; i++) most = needs[i] > most ? needs[i] : most;
    return most;
}

/* From (window, output), or as `to` says, to (output, window). */
INLINE float *turn_out(layer at, maxima to, float *out) {
    const int count = windows(at);
    for (int o = 0; o < at.outputs; o++)
        for (int p = 0; p < count; p++) *out++ = to.values[o * to.of_output + p * to.of_window];
    return out;
}

static void batch_carefully(const afbs_layer_shape *shape, layer at, const float *images, int64_t n, const float *weight,
                            const float *bias, float *out, int32_t *from, float *room) {
    const int64_t size = (int64_t)shape->channels * shape->height * shape->width, step = layer_maxima(shape);
    forward_room w;
    divide_forward(at, room, &w);
    for (int64_t i = 0; i < n; i++, images += size) {
        int32_t *pixels = from ? from + i * step : 0;
        const maxima to = by_planes(at) ? planes_maxima(at, w.turned, pixels) : maxima_of(at, w.turned, pixels);
        lay_out(at, images, shape->margin, w.laid);
        forward_carefully(at, shape->margin, w.laid, weight, bias, to);
        out = turn_out(at, to, out);
    }
}

INLINE void batch_forward(const afbs_layer_shape *shape, layer at, const float *images, int64_t n, const float *weight,
                          const float *bias, float *out, int32_t *from, float *room) {
    const int64_t size = (int64_t)shape->channels * shape->height * shape->width, step = maxima_length(at);
    forward_room w;
    divide_forward(at, room, &w);
    pack_forward(at, weight, w.packed);
    memset(w.biases, 0, rounded(at.outputs) * sizeof(float));
    memcpy(w.biases, bias, at.outputs * sizeof(float));
    for (int64_t i = 0; i < n; i++, images += size) {
        const maxima to = maxima_of(at, w.turned, from ? from + i * step : 0);
        if (by_columns(at)) {
            split_columns(at, images, shape->margin, w.laid);
            forward_by_columns(at, w.laid, w.packed, w.biases, to);
        } else {
            lay_out(at, images, shape->margin, w.laid);
            forward_by_outputs(at, w.laid, w.packed, w.biases, to);
        }
        out = turn_out(at, to, out);
    }
}

INLINE void batch_backward(const afbs_layer_shape *shape, layer at, const float *images, int32_t *from,
                           const float *gradient, int64_t n, const float *weight,
                           float *weight_gradient, float *bias_gradient, float *image_gradient, float *room) {
    const int64_t size = (int64_t)shape->channels * shape->height * shape->width, step = maxima_length(at);
    const int channels = narrow_rounded(at.channels), count = windows(at);
    const int taps = at.kernel * at.kernel * channels, row = at.kernel * row_length(at);
    const int64_t results = (int64_t)at.outputs * count;
    backward_room w;
    divide_backward(at, room, &w);
    const int wild_weights = any_wild(weight, (int64_t)at.outputs * at.channels * at.kernel * at.kernel);
    pack_backward(at, weight, w.packed);
    memset(w.sums, 0, (int64_t)at.outputs * row * sizeof(float));
    memset(bias_gradient, 0, at.outputs * sizeof(float));
    for (int64_t i = 0; i < n; i++, images += size, gradient += results) {
        const int wild = wild_weights | any_wild(images, size);
        const int careful = shape->margin && any_wild(gradient, results);
        const maxima of = maxima_of(at, 0, from + i * step);
        lay_out(at, images, shape->margin, w.laid);
        if (image_gradient) memset(w.input, 0, pixels(at) * channels * sizeof(float));
        for (int o = 0; o < at.outputs; o++) {
            const int entries = list_gradient(at, wild, gradient + (int64_t)o * count, 1, of, o, w.list);
            bias_gradient[o] += list_total(w.list, entries);
            if (careful) weights_carefully(at, shape->margin, w.laid, w.list, entries, w.sums + (int64_t)o * row);
            else weights_backward(at, w.laid, w.list, entries, w.sums + (int64_t)o * row);
            if (image_gradient) input_backward(at, w.packed + (int64_t)o * taps, w.list, entries, w.input);
        }
        if (!image_gradient) continue;
        const float *inner = w.input + (int64_t)shape->margin * (at.width + 1) * channels;
        for (int c = 0; c < shape->channels; c++)
            for (int y = 0; y < shape->height; y++)
                for (int x = 0; x < shape->width; x++)
                    *image_gradient++ = inner[((int64_t)y * at.width + x) * channels + c];
    }
    unpack_gradient(at, w.sums, weight_gradient);
}

/* The common kernels and few channels are known to the compiler, which then unrolls their loops. */
#define WITH_KERNEL(call) \
    do { \
        if (at.kernel == 5) { at.kernel = 5; call; } \
        else { at.kernel = 3; call; } \
    } while (0)
#define WITH_CHANNELS(call) \
    do { \
        if (at.channels == 3) { at.channels = 3; WITH_KERNEL(call); } \
        else if (at.channels == 1) { at.channels = 1; WITH_KERNEL(call); } \
        else if (at.channels == 6) { at.channels = 6; WITH_KERNEL(call); } \
        else WITH_KERNEL(call); \
    } while (0)

static void layer_forward(const afbs_layer_shape *shape, const float *images, int64_t n, const float *weight,
                          const float *bias, float *out, int32_t *from, float *room) {
    layer at = layer_at(shape);
    const int64_t weights = (int64_t)at.outputs * at.channels * at.kernel * at.kernel;
    if (shape->margin && any_wild(weight, weights)) batch_carefully(shape, at, images, n, weight, bias, out, from, room);
    else if (by_planes(at)) WITH_KERNEL(planes_forward(at, shape->margin, images, n, weight, bias, out, from, room));
    else WITH_CHANNELS(batch_forward(shape, at, images, n, weight, bias, out, from, room));
}

static void layer_backward(const afbs_layer_shape *shape, const float *images, int32_t *from, const float *gradient,
                           int64_t n, const float *weight, float *weight_gradient,
                           float *bias_gradient, float *image_gradient, float *room) {
    layer at = layer_at(shape);
    if (by_planes(at))
        WITH_KERNEL(planes_backward(at, shape->margin, images, from, gradient, n, weight, weight_gradient,
                                    bias_gradient, image_gradient, room));
    else
        WITH_CHANNELS(batch_backward(shape, at, images, from, gradient, n, weight, weight_gradient, bias_gradient,
                                     image_gradient, room));
}

#endif
