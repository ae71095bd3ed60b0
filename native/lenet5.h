/* LeNet-5's scores and gradient: the parameters are one vector in the order of the torch module. */
#ifndef AFBS_LENET5_H
#define AFBS_LENET5_H

#include <math.h>

#include "careful.h"
#include "dense.h"
#include "kernels.h"

enum { KERNEL = 5, FIRST = 6, SECOND = 16, HIDDEN1 = 120, HIDDEN2 = 84 };
/* Rows of hidden values are whole vectors, filled up with zeros. */
enum { ROW1 = (HIDDEN1 + LANES - 1) / LANES * LANES, ROW2 = (HIDDEN2 + LANES - 1) / LANES * LANES };
/* Samples that go through the network together: enough for the dense layers, few enough to stay in cache. */
enum { TOGETHER = 32 };

typedef struct {
    layer first, second;
    int margin, classes, classes_row, features;
} network;

typedef struct {
    const float *first, *first_bias, *second, *second_bias, *dense1, *bias1, *dense2, *bias2, *dense3, *bias3;
} parameters;

typedef struct {
    float *packed1, *packed2, *bias1, *bias2, *back2, *dense2, *dense3; /* the parameters, laid out */
    float *sums1, *sums2, *grad2, *grad3;                               /* gradients, laid out alike */
    float *maps, *turned, *x, *h1, *h2, *scores, *d2, *d1, *dx, *dmaps;
    int32_t *from1, *from2;
    entry *list;
    int64_t maps_length, from1_length, from2_length;
    int wild[TOGETHER], careful;
} workspace;

INLINE network network_of(const afbs_lenet5_shape *shape) {
    network net;
    net.first = layer_of(shape->channels, shape->height + 2 * shape->margin, shape->width + 2 * shape->margin, KERNEL,
                         FIRST);
    net.second = layer_of(FIRST, net.first.rows, net.first.columns, KERNEL, SECOND);
    net.margin = shape->margin;
    net.classes = shape->classes;
    net.classes_row = rounded(shape->classes);
    net.features = SECOND * windows(net.second);
    return net;
}

INLINE parameters split(network net, const float *vector) {
    parameters p;
    p.first = vector;
    p.first_bias = p.first + (int64_t)FIRST * net.first.channels * KERNEL * KERNEL;
    p.second = p.first_bias + FIRST;
    p.second_bias = p.second + SECOND * FIRST * KERNEL * KERNEL;
    p.dense1 = p.second_bias + SECOND;
    p.bias1 = p.dense1 + (int64_t)HIDDEN1 * net.features;
    p.dense2 = p.bias1 + HIDDEN1;
    p.bias2 = p.dense2 + HIDDEN2 * HIDDEN1;
    p.dense3 = p.bias2 + HIDDEN2;
    p.bias3 = p.dense3 + (int64_t)net.classes * HIDDEN2;
    return p;
}

static int64_t divide(network net, float *room, workspace *w) {
    int64_t used = unused_floats(room);
#define TAKE(floats) take(room, &used, floats)
    w->packed1 = TAKE(packed_length(net.first));
    w->packed2 = TAKE(packed_length(net.second));
    w->bias1 = TAKE(LANES);
    w->bias2 = TAKE(SECOND);
    w->back2 = TAKE(SECOND * KERNEL * KERNEL * narrow_rounded(FIRST));
    w->dense2 = TAKE(HIDDEN2 * ROW1);
    w->dense3 = TAKE((int64_t)net.classes * ROW2);
    w->sums1 = TAKE((int64_t)FIRST * KERNEL * row_length(net.first) + FIRST);
    w->sums2 = TAKE(SECOND * KERNEL * row_length(net.second) + SECOND);
    w->grad2 = TAKE(HIDDEN2 * ROW1);
    w->grad3 = TAKE((int64_t)net.classes * ROW2);
    w->maps_length = laid_length(net.second);
    w->maps = TAKE(TOGETHER * w->maps_length);
    w->turned = TAKE(maxima_length(net.first) > maxima_length(net.second) ? maxima_length(net.first)
                                                                          : maxima_length(net.second));
    w->x = TAKE((int64_t)TOGETHER * net.features);
    w->h1 = TAKE(TOGETHER * ROW1);
    w->h2 = TAKE(TOGETHER * ROW2);
    w->scores = TAKE((int64_t)TOGETHER * net.classes_row);
    w->d2 = TAKE(TOGETHER * ROW2);
    w->d1 = TAKE(TOGETHER * ROW1);
    w->dx = TAKE((int64_t)TOGETHER * net.features);
    w->dmaps = TAKE(pixels(net.second) * narrow_rounded(FIRST));
    w->from1_length = maxima_length(net.first);
    w->from1 = (int32_t *)TAKE(TOGETHER * w->from1_length);
    w->from2_length = maxima_length(net.second);
    w->from2 = (int32_t *)TAKE(TOGETHER * w->from2_length);
    w->list = (entry *)TAKE(2 * longest_list(net.first));
#undef TAKE
    return used + LINE;
}

static void copy_rows(int rows, int length, const float *from, int from_row, float *to, int to_row) {
    for (int i = 0; i < rows; i++) {
        memcpy(to + (int64_t)i * to_row, from + (int64_t)i * from_row, length * sizeof(float));
        for (int j = length; j < to_row; j++) to[(int64_t)i * to_row + j] = 0;
    }
}

static void prepare(network net, parameters p, workspace *w) {
    pack_forward(net.first, p.first, w->packed1);
    pack_forward(net.second, p.second, w->packed2);
    copy_rows(1, FIRST, p.first_bias, FIRST, w->bias1, LANES);
    copy_rows(1, SECOND, p.second_bias, SECOND, w->bias2, SECOND);
    copy_rows(HIDDEN2, HIDDEN1, p.dense2, HIDDEN1, w->dense2, ROW1);
    copy_rows(net.classes, HIDDEN2, p.dense3, HIDDEN2, w->dense3, ROW2);
    w->careful = net.margin && any_wild(p.first, (int64_t)FIRST * net.first.channels * KERNEL * KERNEL);
    memset(w->h1, 0, TOGETHER * ROW1 * sizeof(float));
    memset(w->h2, 0, TOGETHER * ROW2 * sizeof(float));
}

/* What the compiler knows of a layer it can unroll. */
INLINE layer first_layer(network net, const int channels) {
    layer first = net.first;
    first.channels = channels ? channels : first.channels;
    first.kernel = KERNEL;
    first.outputs = FIRST;
    return first;
}

INLINE layer second_layer(network net) {
    layer second = net.second;
    second.channels = FIRST;
    second.kernel = KERNEL;
    second.outputs = SECOND;
    return second;
}

INLINE void turn(const float *from, int64_t of_output, int64_t of_window, int count, float *to, int64_t to_output,
                 int64_t to_window, const int outputs) {
    for (int p = 0; p < count; p++)
        UNROLLED for (int o = 0; o < outputs; o++) to[p * to_window + o * to_output] = from[p * of_window + o * of_output];
}

/* A laid out sample is both: channels last, and in planes of even and odd columns. */
INLINE void features_of(network net, parameters p, const float *sample, workspace *w, int i, int learn,
                        const int channels) {
    const layer first = first_layer(net, channels), second = second_layer(net);
    float *maps = w->maps + i * w->maps_length, *x = w->x + (int64_t)i * net.features;
    const maxima to1 = maxima_of(first, w->turned, learn ? w->from1 + i * w->from1_length : 0);
    if (w->careful) forward_carefully(first, net.margin, sample, p.first, p.first_bias, to1);
    else if (by_columns(first)) forward_by_columns(first, sample + laid_length(first), w->packed1, w->bias1, to1);
    else forward_by_outputs(first, sample, w->packed1, w->bias1, to1);
    turn(w->turned, to1.of_output, to1.of_window, windows(first), maps, 1, FIRST, FIRST);
    w->wild[i] = any_wild(maps, (int64_t)windows(first) * FIRST);
    const maxima to2 = {w->turned, learn ? w->from2 + i * w->from2_length : 0, 1, SECOND};
    forward_by_outputs(second, maps, w->packed2, w->bias2, to2);
    turn(w->turned, 1, SECOND, windows(second), x, windows(second), 1, SECOND);
}

static void features(network net, parameters p, const float *sample, workspace *w, int i, int learn) {
    if (net.first.channels == 3) features_of(net, p, sample, w, i, learn, 3);
    else if (net.first.channels == 1) features_of(net, p, sample, w, i, learn, 1);
    else features_of(net, p, sample, w, i, learn, 0);
}

static void relu_all(float *values, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES) store(values + i, relu(load(values + i)));
}

static void head(network net, parameters p, workspace *w, int n, float *scores, int scores_row) {
    dense_forward(n, net.features, HIDDEN1, w->x, p.dense1, p.bias1, w->h1, ROW1);
    relu_all(w->h1, (int64_t)n * ROW1);
    dense_forward(n, ROW1, HIDDEN2, w->h1, w->dense2, p.bias2, w->h2, ROW2);
    relu_all(w->h2, (int64_t)n * ROW2);
    dense_forward(n, ROW2, net.classes, w->h2, w->dense3, p.bias3, scores, scores_row);
}

/* Turns scores into the gradient of the cross-entropy over `count` samples. */
static void softmax_gradient(network net, float *scores, int64_t label, float share) {
    float most = scores[0], sum = 0;
    for (int o = 1; o < net.classes; o++) most = scores[o] > most ? scores[o] : most;
    for (int o = 0; o < net.classes; o++) sum += scores[o] = expf(scores[o] - most);
    for (int o = 0; o < net.classes; o++) scores[o] = scores[o] / sum * share;
    scores[label] -= share;
}

static void add_rows(int n, int length, const float *rows, int row, float *sums, int add) {
    if (!add) memset(sums, 0, length * sizeof(float));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < length; j++) sums[j] += rows[(int64_t)i * row + j];
}

/* ReLU passes the gradient on where its value is not zero. */
static void mask(const float *values, float *gradient, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES)
        store(gradient + i, where(load(values + i) <= splat(0), splat(0), load(gradient + i)));
}

static void head_backward(network net, parameters p, workspace *w, int n, float *gradient, int add) {
    const parameters to = split(net, gradient);
    const int features = net.features, row3 = net.classes_row;
#define INTO(member) ((float *)to.member)
    product(net.classes, n, ROW2, w->scores, 1, row3, w->h2, ROW2, w->grad3, ROW2, add);
    add_rows(n, net.classes, w->scores, row3, INTO(bias3), add);
    product(n, net.classes, ROW2, w->scores, row3, 1, w->dense3, ROW2, w->d2, ROW2, 0);
    mask(w->h2, w->d2, (int64_t)n * ROW2);
    product(HIDDEN2, n, ROW1, w->d2, 1, ROW2, w->h1, ROW1, w->grad2, ROW1, add);
    add_rows(n, HIDDEN2, w->d2, ROW2, INTO(bias2), add);
    product(n, HIDDEN2, ROW1, w->d2, ROW2, 1, w->dense2, ROW1, w->d1, ROW1, 0);
    mask(w->h1, w->d1, (int64_t)n * ROW1);
    product(HIDDEN1, n, features, w->d1, 1, ROW1, w->x, features, INTO(dense1), features, add);
    add_rows(n, HIDDEN1, w->d1, ROW1, INTO(bias1), add);
    product(n, HIDDEN1, features, w->d1, ROW1, 1, p.dense1, features, w->dx, features, 0);
#undef INTO
}

INLINE void features_backward(network net, const float *sample, int wild, workspace *w, int i, const int channels) {
    const layer first = first_layer(net, channels), second = second_layer(net);
    const int count = windows(second), length1 = KERNEL * row_length(first), length2 = KERNEL * row_length(second);
    const int lanes = narrow_rounded(FIRST);
    const float *maps = w->maps + i * w->maps_length, *dx = w->dx + (int64_t)i * net.features;
    const maxima of1 = maxima_of(first, 0, w->from1 + i * w->from1_length);
    const maxima of2 = {0, w->from2 + i * w->from2_length, 1, SECOND};
    float *biases1 = w->sums1 + FIRST * length1, *biases2 = w->sums2 + SECOND * length2;
    memset(w->dmaps, 0, pixels(second) * lanes * sizeof(float));
    for (int o = 0; o < SECOND; o++) {
        const int n = list_gradient(second, wild, dx + o * count, 1, of2, o, w->list);
        weights_backward(second, maps, w->list, n, w->sums2 + o * length2);
        input_backward(second, w->back2 + o * KERNEL * KERNEL * lanes, w->list, n, w->dmaps);
        biases2[o] += list_total(w->list, n);
    }
    const int careful = net.margin && any_wild(w->dmaps, pixels(second) * lanes);
    for (int o = 0; o < FIRST; o++) {
        const int n = list_gradient(first, wild, w->dmaps + o, lanes, of1, o, w->list);
        if (careful) weights_carefully(first, net.margin, sample, w->list, n, w->sums1 + o * length1);
        else weights_backward(first, sample, w->list, n, w->sums1 + o * length1);
        biases1[o] += list_total(w->list, n);
    }
}

static void convolutions_backward(network net, const float *sample, int wild, workspace *w, int i) {
    if (net.first.channels == 3) features_backward(net, sample, wild, w, i, 3);
    else if (net.first.channels == 1) features_backward(net, sample, wild, w, i, 1);
    else features_backward(net, sample, wild, w, i, 0);
}

static int64_t lenet5_sample(const afbs_lenet5_shape *shape) {
    const layer first = network_of(shape).first;
    return laid_length(first) + (by_columns(first) ? split_length(first) : 0);
}

static int64_t lenet5_room(const afbs_lenet5_shape *shape) {
    workspace w;
    return divide(network_of(shape), 0, &w);
}

static void lenet5_lay_out(const afbs_lenet5_shape *shape, const float *images, int64_t n, float *laid, uint8_t *wild) {
    const layer first = network_of(shape).first;
    const int64_t size = (int64_t)shape->channels * shape->height * shape->width;
    for (int64_t i = 0; i < n; i++, images += size, laid += lenet5_sample(shape)) {
        lay_out(first, images, shape->margin, laid);
        if (by_columns(first)) split_columns(first, images, shape->margin, laid + laid_length(first));
        wild[i] = any_wild(images, size);
    }
}

/* Both layouts at once, from bytes through a table that knows what each byte of each channel stands for. */
static void lay_out_bytes(layer at, int margin, const uint8_t *image, const float *table, float *laid) {
    const int height = at.height - 2 * margin, width = at.width - 2 * margin, half = half_width(at);
    const int split = by_columns(at);
    float *planes = laid + laid_length(at);
    memset(laid, 0, (laid_length(at) + (split ? split_length(at) : 0)) * sizeof(float));
    for (int c = 0; c < at.channels; c++, table += 256)
        for (int y = margin; y < height + margin; y++, image += width) {
            float *last = laid + ((int64_t)y * at.width + margin) * at.channels + c;
            if (!split) {
                for (int x = 0; x < width; x++) last[x * at.channels] = table[image[x]];
                continue;
            }
            float *even = planes + ((int64_t)c * at.height + y) * 2 * half + margin / 2, *odd = even + half;
            for (int x = 0; x < width; x++) last[x * at.channels] = (x % 2 ? odd : even)[x / 2] = table[image[x]];
        }
}

static void lenet5_lay_out_bytes(const afbs_lenet5_shape *shape, const uint8_t *images, const int64_t *chosen, int64_t n,
                                 const float *table, float *laid, uint8_t *wild) {
    const layer first = network_of(shape).first;
    const int64_t size = (int64_t)shape->channels * shape->height * shape->width, length = lenet5_sample(shape);
    memset(wild, any_wild(table, 256 * shape->channels), n);
    for (int64_t i = 0; i < n; i++)
        lay_out_bytes(first, shape->margin, images + chosen[i] * size, table, laid + i * length);
}

static void lenet5_gradient(const afbs_lenet5_shape *shape, const float *params, const float *laid, const uint8_t *wild,
                            const int64_t *labels, const int64_t *chosen, int64_t n, float *gradient, float *room) {
    const network net = network_of(shape);
    const parameters p = split(net, params), to = split(net, gradient);
    const int64_t length = lenet5_sample(shape);
    workspace w;
    divide(net, room, &w);
    prepare(net, p, &w);
    pack_backward(net.second, p.second, w.back2);
    const int64_t sums1 = (int64_t)FIRST * KERNEL * row_length(net.first);
    const int64_t sums2 = (int64_t)SECOND * KERNEL * row_length(net.second);
    memset(w.sums1, 0, (sums1 + FIRST) * sizeof(float));
    memset(w.sums2, 0, (sums2 + SECOND) * sizeof(float));
    const int wild_weights = any_wild(p.second, SECOND * FIRST * KERNEL * KERNEL);
    for (int64_t first = 0; first < n; first += TOGETHER) {
        const int count = n - first < TOGETHER ? (int)(n - first) : TOGETHER;
        const int64_t *samples = chosen + first;
        for (int i = 0; i < count; i++) features(net, p, laid + samples[i] * length, &w, i, 1);
        head(net, p, &w, count, w.scores, net.classes_row);
        for (int i = 0; i < count; i++)
            softmax_gradient(net, w.scores + (int64_t)i * net.classes_row, labels[samples[i]], 1.0f / (float)n);
        head_backward(net, p, &w, count, gradient, first > 0);
        for (int i = 0; i < count; i++)
            convolutions_backward(net, laid + samples[i] * length,
                                  wild_weights | wild[samples[i]] | w.wild[i], &w, i);
    }
    unpack_gradient(net.first, w.sums1, (float *)to.first);
    memcpy((float *)to.first_bias, w.sums1 + sums1, FIRST * sizeof(float));
    unpack_gradient(net.second, w.sums2, (float *)to.second);
    memcpy((float *)to.second_bias, w.sums2 + sums2, SECOND * sizeof(float));
    copy_rows(HIDDEN2, HIDDEN1, w.grad2, ROW1, (float *)to.dense2, HIDDEN1);
    copy_rows(net.classes, HIDDEN2, w.grad3, ROW2, (float *)to.dense3, HIDDEN2);
}

static void lenet5_scores(const afbs_lenet5_shape *shape, const float *params, const float *laid, int64_t n,
                          float *scores, float *room) {
    const network net = network_of(shape);
    const parameters p = split(net, params);
    const int64_t length = lenet5_sample(shape);
    workspace w;
    divide(net, room, &w);
    prepare(net, p, &w);
    for (int64_t first = 0; first < n; first += TOGETHER) {
        const int count = n - first < TOGETHER ? (int)(n - first) : TOGETHER;
        for (int i = 0; i < count; i++) features(net, p, laid + (first + i) * length, &w, i, 0);
        head(net, p, &w, count, scores + first * net.classes, net.classes);
    }
}

#endif
