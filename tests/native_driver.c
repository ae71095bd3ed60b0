/* The kernels without Python, for other processors and for sanitizers: reads a case from standard input, writes what
   comes of it to standard output. Everything is allocated to the byte, so that a sanitizer sees what goes beyond. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels.h"

extern const afbs_kernels AFBS_TABLE;

static void *input(size_t bytes) {
    void *block = malloc(bytes);
    if (!block || fread(block, 1, bytes, stdin) != bytes) exit(2);
    return block;
}

static void *space(size_t bytes) {
    void *block = malloc(bytes);
    if (!block) exit(3);
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)block)[i] = 0xff; /* NaN, for what is read too early */
    return block;
}

static void output(void *block, size_t bytes) {
    if (fwrite(block, 1, bytes, stdout) != bytes) exit(4);
    free(block);
}

static void lenet5(const int32_t *head) {
    const afbs_lenet5_shape shape = {head[1], head[2], head[3], head[4], head[5]};
    const int64_t n = head[6], parameters = head[7];
    float *params = input(parameters * 4), *images = input(n * shape.channels * shape.height * shape.width * 4);
    int64_t *labels = input(n * 8), *chosen = input(n * 8);
    float *laid = space(n * AFBS_TABLE.lenet5_sample(&shape) * 4), *room = space(AFBS_TABLE.lenet5_room(&shape) * 4);
    uint8_t *wild = space(n);
    float *gradient = space(parameters * 4), *scores = space(n * shape.classes * 4);
    AFBS_TABLE.lenet5_lay_out(&shape, images, n, laid, wild);
    AFBS_TABLE.lenet5_gradient(&shape, params, laid, wild, labels, chosen, n, gradient, room);
    AFBS_TABLE.lenet5_scores(&shape, params, laid, n, scores, room);
    output(gradient, parameters * 4);
    output(scores, n * shape.classes * 4);
    free(params), free(images), free(labels), free(chosen), free(laid), free(room), free(wild);
}

static void layer(const int32_t *head) {
    const afbs_layer_shape shape = {head[1], head[2], head[3], head[4], head[5], head[6]};
    const int64_t n = head[7], size = n * shape.channels * shape.height * shape.width;
    const int64_t weights = (int64_t)shape.outputs * shape.channels * shape.kernel * shape.kernel;
    const int64_t rows = (shape.height + 2 * shape.margin - shape.kernel + 1) / 2;
    const int64_t columns = (shape.width + 2 * shape.margin - shape.kernel + 1) / 2;
    const int64_t results = n * shape.outputs * rows * columns;
    float *images = input(size * 4), *weight = input(weights * 4), *bias = input(shape.outputs * 4);
    float *gradient = input(results * 4), *out = space(results * 4);
    int32_t *from = space(n * AFBS_TABLE.layer_maxima(&shape) * 4);
    float *room = space(AFBS_TABLE.layer_room(&shape) * 4);
    float *of_weight = space(weights * 4), *of_bias = space(shape.outputs * 4), *of_images = space(size * 4);
    AFBS_TABLE.layer_forward(&shape, images, n, weight, bias, out, 0, room);
    AFBS_TABLE.layer_forward(&shape, images, n, weight, bias, out, from, room);
    AFBS_TABLE.layer_backward(&shape, images, from, gradient, n, weight, of_weight, of_bias, 0, room);
    AFBS_TABLE.layer_backward(&shape, images, from, gradient, n, weight, of_weight, of_bias, of_images, room);
    output(out, results * 4);
    output(of_images, size * 4);
    output(of_weight, weights * 4);
    output(of_bias, shape.outputs * 4);
    free(images), free(weight), free(bias), free(gradient), free(from), free(room);
}

int main(void) {
    int32_t *head = input(8 * 4);
    if (head[0]) layer(head);
    else lenet5(head);
    free(head);
    return 0;
}
