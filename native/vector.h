/* Eight floats at a time, in the vector extensions that GCC and Clang share: they compile for any processor. */
#ifndef AFBS_VECTOR_H
#define AFBS_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 16")
#define ROLLED _Pragma("GCC unroll 1")

typedef float v8 __attribute__((vector_size(32)));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef float v8_anywhere __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t i8_anywhere __attribute__((vector_size(32), aligned(4), may_alias));

INLINE v8 load(const float *from) { return *(const v8_anywhere *)from; }
INLINE void store(float *to, v8 value) { *(v8_anywhere *)to = value; }
INLINE void store_ints(int32_t *to, i8 value) { *(i8_anywhere *)to = value; }
INLINE v8 splat(float x) { return (v8){x, x, x, x, x, x, x, x}; }
INLINE i8 splat_int(int32_t x) { return (i8){x, x, x, x, x, x, x, x}; }
INLINE v8 where(i8 mask, v8 yes, v8 no) { return (v8)((mask & (i8)yes) | (~mask & (i8)no)); }
INLINE i8 where_ints(i8 mask, i8 yes, i8 no) { return (mask & yes) | (~mask & no); }

/* NaN stays NaN: it is not below zero. */
INLINE v8 relu(v8 x) { return where(x <= splat(0), splat(0), x); }

INLINE int round_up(int n) { return (n + LANES - 1) / LANES * LANES; }
INLINE int at_most(int n, int most) { return n < most ? n : most; }

/* NaN as soon as one of the values was not finite, else zero. */
static __attribute__((noinline)) float probe(const float *values, int64_t n) {
    float sum = 0;
    v8 sums = splat(0);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) sums += load(values + i) * 0.0f;
    for (; i < n; i++) sum += values[i] * 0.0f;
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum;
}

#endif
