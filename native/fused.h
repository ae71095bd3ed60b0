/* The fused layer on a batch, as torch lays it out: (sample, channel, row, column). */
#ifndef AFBS_FUSED_H
#define AFBS_FUSED_H

#include "conv.h"
#include "kernels.h"

INLINE layer layer_at(const afbs_layer_shape *shape) {
    return layer_of(shape->channels, shape->height + 2 * shape->margin, shape->width + 2 * shape->margin, shape->kernel,
                    shape->outputs);
}

static int64_t layer_sample(const afbs_layer_shape *shape) { return laid_length(layer_at(shape)); }

static int64_t layer_room(const afbs_layer_shape *shape) {
    const layer at = layer_at(shape);
    const int64_t forward = packed_length(at) + round_up(at.outputs) + (int64_t)windows(at) * round_up(at.outputs);
    const int64_t weights = (int64_t)at.outputs * at.kernel * at.kernel * round_up(at.channels);
    const int64_t sums = (int64_t)at.outputs * at.kernel * row_length(at);
    const int64_t backward = weights + sums + 2 * longest_list(at) + pixels(at) * round_up(at.channels) +
                             (int64_t)at.outputs * windows(at);
    return (forward > backward ? forward : backward) + LANES;
}

INLINE void batch_forward(const afbs_layer_shape *shape, layer at, const float *images, int64_t n, const float *weight,
                          const float *bias, float *out, float *laid, uint8_t *wild, int32_t *from, float *room) {
    const int64_t size = (int64_t)shape->channels * shape->height * shape->width, length = laid_length(at);
    const int lanes = round_up(at.outputs), count = windows(at);
    float *packed = room, *biases = packed + packed_length(at), *turned = biases + lanes;
    pack_forward(at, weight, packed);
    memset(biases, 0, lanes * sizeof(float));
    memcpy(biases, bias, at.outputs * sizeof(float));
    memset(laid, 0, n * length * sizeof(float));
    for (int64_t i = 0; i < n; i++, laid += length, out += (int64_t)at.outputs * count) {
        lay_out(images + i * size, shape->channels, shape->height, shape->width, shape->margin, laid);
        wild[i] = probe(images + i * size, size) != 0;
        layer_forward(at, laid, packed, biases, turned, lanes, from ? from + i * count * lanes : 0);
        for (int o = 0; o < at.outputs; o++)
            for (int p = 0; p < count; p++) out[(int64_t)o * count + p] = turned[(int64_t)p * lanes + o];
    }
}

INLINE void batch_backward(const afbs_layer_shape *shape, layer at, const float *laid, const uint8_t *wild,
                           const int32_t *from, const float *out, const float *gradient, int64_t n, const float *weight,
                           float *weight_gradient, float *bias_gradient, float *image_gradient, float *room) {
    const int64_t length = laid_length(at), size = (int64_t)shape->channels * shape->height * shape->width;
    const int lanes = round_up(at.outputs), channels = round_up(at.channels), count = windows(at);
    const int taps = at.kernel * at.kernel * channels, row = at.kernel * row_length(at);
    float *packed = room, *sums = packed + (int64_t)at.outputs * taps, *input = sums + (int64_t)at.outputs * row;
    float *masked = input + pixels(at) * channels;
    entry *list = (entry *)(masked + (int64_t)at.outputs * count);
    const int wild_weights = probe(weight, (int64_t)at.outputs * at.channels * at.kernel * at.kernel) != 0;
    pack_backward(at, weight, packed);
    memset(sums, 0, (int64_t)at.outputs * row * sizeof(float));
    memset(bias_gradient, 0, at.outputs * sizeof(float));
    for (int64_t i = 0; i < n; i++, laid += length) {
        if (image_gradient) memset(input, 0, pixels(at) * channels * sizeof(float));
        const int64_t place = i * at.outputs * count;
        mask(out + place, gradient + place, masked, (int64_t)at.outputs * count);
        for (int o = 0; o < at.outputs; o++) {
            const int32_t *pixel = from + i * count * lanes + o;
            const int entries = wild[i] | wild_weights
                                    ? list_everything(at, masked + (int64_t)o * count, 1, pixel, list)
                                    : list_gradient(at, masked + (int64_t)o * count, 1, pixel, list);
            bias_gradient[o] += list_total(list, entries);
            weights_backward(at, laid, list, entries, sums + (int64_t)o * row);
            if (image_gradient) input_backward(at, packed + (int64_t)o * taps, list, entries, input);
        }
        if (!image_gradient) continue;
        const float *inner = input + (int64_t)shape->margin * (at.width + 1) * channels;
        float *to = image_gradient + i * size;
        for (int c = 0; c < shape->channels; c++)
            for (int y = 0; y < shape->height; y++)
                for (int x = 0; x < shape->width; x++)
                    *to++ = inner[((int64_t)y * at.width + x) * channels + c];
    }
    unpack_gradient(at, sums, weight_gradient);
}

#define WITH_KNOWN(call) \
    do { \
        layer at = layer_at(shape); \
        if (at.kernel == 5) { \
            at.kernel = 5; \
            if (at.channels == 1) { at.channels = 1; call; } \
            else if (at.channels == 3) { at.channels = 3; call; } \
            else call; \
        } else if (at.kernel == 3) { \
            at.kernel = 3; \
            if (at.channels == 1) { at.channels = 1; call; } \
            else if (at.channels == 3) { at.channels = 3; call; } \
            else call; \
        } else call; \
    } while (0)

static void layer_forward_batch(const afbs_layer_shape *shape, const float *images, int64_t n, const float *weight,
                                const float *bias, float *out, float *laid, uint8_t *wild, int32_t *from, float *room) {
    WITH_KNOWN(batch_forward(shape, at, images, n, weight, bias, out, laid, wild, from, room));
}

static void layer_backward_batch(const afbs_layer_shape *shape, const float *laid, const uint8_t *wild,
                                 const int32_t *from, const float *out, const float *gradient, int64_t n,
                                 const float *weight, float *weight_gradient, float *bias_gradient,
                                 float *image_gradient, float *room) {
    WITH_KNOWN(batch_backward(shape, at, laid, wild, from, out, gradient, n, weight, weight_gradient, bias_gradient,
                              image_gradient, room));
}

#endif
