/* What the library offers. The same sources are compiled once for each level of a processor's abilities. */
#ifndef AFBS_KERNELS_H
#define AFBS_KERNELS_H

#include <stdint.h>

/* Grows with every change of what is below, so that a library is never called by sources it was not built from. */
#define AFBS_INTERFACE 3

typedef struct {
    int32_t channels, height, width, margin, classes;
} afbs_lenet5_shape;

typedef struct {
    int32_t channels, height, width, margin, kernel, outputs;
} afbs_layer_shape;

typedef struct {
    /* LeNet-5. Floats that a laid out sample takes, and that the two functions below need to work in. */
    int64_t (*lenet5_sample)(const afbs_lenet5_shape *);
    int64_t (*lenet5_room)(const afbs_lenet5_shape *);
    /* From (n, channels, height, width) to the layout of the other two. `wild` says which samples are not finite. */
    void (*lenet5_lay_out)(const afbs_lenet5_shape *, const float *images, int64_t n, float *laid, uint8_t *wild);
    /* The same for those that `chosen` numbers, of bytes; `table` (channels, 256) says what a byte stands for. */
    void (*lenet5_lay_out_bytes)(const afbs_lenet5_shape *, const uint8_t *images, const int64_t *chosen, int64_t n,
                                 const float *table, float *laid, uint8_t *wild);
    /* The gradient of the mean cross-entropy over the `n` samples that `chosen` numbers. */
    void (*lenet5_gradient)(const afbs_lenet5_shape *, const float *params, const float *laid, const uint8_t *wild,
                            const int64_t *labels, const int64_t *chosen, int64_t n, float *gradient, float *room);
    void (*lenet5_scores)(const afbs_lenet5_shape *, const float *params, const float *laid, int64_t n, float *scores,
                          float *room);
    /* Convolution, maximum of 2 x 2, ReLU. How many numbers say where a sample's maxima came from, and the floats that
       the work needs. */
    int64_t (*layer_maxima)(const afbs_layer_shape *);
    int64_t (*layer_room)(const afbs_layer_shape *);
    /* Writes out (n, outputs, rows, columns), and for `backward` where the maxima came from, unless that is missing. */
    void (*layer_forward)(const afbs_layer_shape *, const float *images, int64_t n, const float *weight,
                          const float *bias, float *out, int32_t *from, float *room);
    /* The gradients of weights, biases and, unless missing, images. */
    void (*layer_backward)(const afbs_layer_shape *, const float *images, int32_t *from, const float *gradient,
                           int64_t n, const float *weight, float *weight_gradient,
                           float *bias_gradient, float *image_gradient, float *room);
    /* Fused multiply-adds in registers and nothing else, to see what the processor could do; says how many flops. */
    int64_t (*peak)(int64_t rounds, float *result);
} afbs_kernels;

#endif
