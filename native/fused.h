/* The fused layer on a batch, as torch lays it out: (sample, channel, row, column). */
#ifndef AFBS_FUSED_H
#define AFBS_FUSED_H

#include "careful.h"
#include "kernels.h"

INLINE layer layer_at(const afbs_layer_shape *shape) {
    return layer_of(shape->channels, shape->height + 2 * shape->margin, shape->width + 2 * shape->margin, shape->kernel,
                    shape->outputs);
}

static int64_t layer_maxima(const afbs_layer_shape *shape) { return maxima_length(layer_at(shape)); }

static int64_t layer_room(const afbs_layer_shape *shape) {
    const layer at = layer_at(shape);
    const int64_t laid = laid_length(at) > split_length(at) ? laid_length(at) : split_length(at);
    const int64_t forward = packed_length(at) + rounded(at.outputs) + maxima_length(at);
    const int64_t weights = (int64_t)at.outputs * at.kernel * at.kernel * narrow_rounded(at.channels);
    const int64_t sums = (int64_t)at.outputs * at.kernel * row_length(at);
    const int64_t input = pixels(at) * narrow_rounded(at.channels);
    const int64_t backward = weights + sums + input + 2 * longest_list(at);
    return laid + (forward > backward ? forward : backward);
}

INLINE void batch_forward(const afbs_layer_shape *shape, layer at, const float *images, int64_t n, const float *weight,
                          const float *bias, float *out, int32_t *from, float *room) {
    const int64_t size = (int64_t)shape->channels * shape->height * shape->width, step = maxima_length(at);
    const int count = windows(at);
    const int careful = shape->margin && any_wild(weight, (int64_t)at.outputs * at.channels * at.kernel * at.kernel);
    float *packed = room, *biases = packed + packed_length(at), *turned = biases + rounded(at.outputs);
    float *laid = turned + step;
    pack_forward(at, weight, packed);
    memset(biases, 0, rounded(at.outputs) * sizeof(float));
    memcpy(biases, bias, at.outputs * sizeof(float));
    for (int64_t i = 0; i < n; i++, images += size) {
        const maxima to = maxima_of(at, turned, from ? from + i * step : 0);
        if (careful) {
            lay_out(at, images, shape->margin, laid);
            forward_carefully(at, shape->margin, laid, weight, bias, to);
        } else if (by_columns(at)) {
            split_columns(at, images, shape->margin, laid);
            forward_by_columns(at, laid, packed, biases, to);
        } else {
            lay_out(at, images, shape->margin, laid);
            forward_by_outputs(at, laid, packed, biases, to);
        }
        for (int o = 0; o < at.outputs; o++)
            for (int p = 0; p < count; p++) *out++ = turned[o * to.of_output + p * to.of_window];
    }
}

INLINE void batch_backward(const afbs_layer_shape *shape, layer at, const float *images, int32_t *from,
                           const float *gradient, int64_t n, const float *weight,
                           float *weight_gradient, float *bias_gradient, float *image_gradient, float *room) {
    const int64_t size = (int64_t)shape->channels * shape->height * shape->width, step = maxima_length(at);
    const int channels = narrow_rounded(at.channels), count = windows(at);
    const int taps = at.kernel * at.kernel * channels, row = at.kernel * row_length(at);
    const int64_t results = (int64_t)at.outputs * count;
    float *packed = room, *sums = packed + (int64_t)at.outputs * taps, *input = sums + (int64_t)at.outputs * row;
    float *laid = input + pixels(at) * channels;
    entry *list = (entry *)(laid + laid_length(at));
    const int wild_weights = any_wild(weight, (int64_t)at.outputs * at.channels * at.kernel * at.kernel);
    pack_backward(at, weight, packed);
    memset(sums, 0, (int64_t)at.outputs * row * sizeof(float));
    memset(bias_gradient, 0, at.outputs * sizeof(float));
    for (int64_t i = 0; i < n; i++, images += size, gradient += results) {
        const int wild = wild_weights | any_wild(images, size);
        const int careful = shape->margin && any_wild(gradient, results);
        const maxima of = maxima_of(at, 0, from + i * step);
        lay_out(at, images, shape->margin, laid);
        if (image_gradient) memset(input, 0, pixels(at) * channels * sizeof(float));
        for (int o = 0; o < at.outputs; o++) {
            const int entries = list_gradient(at, wild, gradient + (int64_t)o * count, 1, of, o, list);
            bias_gradient[o] += list_total(list, entries);
            if (careful) weights_carefully(at, shape->margin, laid, list, entries, sums + (int64_t)o * row);
            else weights_backward(at, laid, list, entries, sums + (int64_t)o * row);
            if (image_gradient) input_backward(at, packed + (int64_t)o * taps, list, entries, input);
        }
        if (!image_gradient) continue;
        const float *inner = input + (int64_t)shape->margin * (at.width + 1) * channels;
        for (int c = 0; c < shape->channels; c++)
            for (int y = 0; y < shape->height; y++)
                for (int x = 0; x < shape->width; x++)
                    *image_gradient++ = inner[((int64_t)y * at.width + x) * channels + c];
    }
    unpack_gradient(at, sums, weight_gradient);
}

/* The common kernels and few channels are known to the compiler, which then unrolls their loops. */
#define WITH_KNOWN(call) \
    do { \
        layer at = layer_at(shape); \
        if (at.kernel == 5) { \
            at.kernel = 5; \
            if (at.channels == 3) { at.channels = 3; call; } \
            else if (at.channels == 1) { at.channels = 1; call; } \
            else if (at.channels == 6) { at.channels = 6; call; } \
            else call; \
        } else { \
            at.kernel = 3; \
            if (at.channels == 3) { at.channels = 3; call; } \
            else if (at.channels == 1) { at.channels = 1; call; } \
            else call; \
        } \
    } while (0)

static void layer_forward(const afbs_layer_shape *shape, const float *images, int64_t n, const float *weight,
                          const float *bias, float *out, int32_t *from, float *room) {
    WITH_KNOWN(batch_forward(shape, at, images, n, weight, bias, out, from, room));
}

static void layer_backward(const afbs_layer_shape *shape, const float *images, int32_t *from, const float *gradient,
                           int64_t n, const float *weight, float *weight_gradient,
                           float *bias_gradient, float *image_gradient, float *room) {
    WITH_KNOWN(batch_backward(shape, at, images, from, gradient, n, weight, weight_gradient, bias_gradient,
                              image_gradient, room));
}

#endif
