/* Vectors of floats in the extensions that GCC and Clang share: they compile for any processor. */
#ifndef AFBS_VECTOR_H
#define AFBS_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The widest vectors there are, and how many registers hold one. */
#if defined(__AVX512F__)
#define LANES 16
#define REGISTERS 32
#elif defined(__AVX__)
#define LANES 8
#define REGISTERS 16
#elif defined(__aarch64__)
#define LANES 4
#define REGISTERS 32
#else
#define LANES 4
#define REGISTERS 16
#endif
#define NARROW (LANES < 8 ? LANES : 8)

#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 32")
#define ROLLED _Pragma("GCC unroll 1")
/* Unrolled, neighbouring taps share what they load, if there are registers to keep it in. */
#if REGISTERS == 32
#define TAPS UNROLLED
#else
#define TAPS ROLLED
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef float narrow __attribute__((vector_size(4 * NARROW)));
typedef float quarter __attribute__((vector_size(16)));
typedef float vec_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ints_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float narrow_anywhere __attribute__((vector_size(4 * NARROW), aligned(4), may_alias));

INLINE vec load(const float *from) { return *(const vec_anywhere *)from; }
INLINE void store(float *to, vec value) { *(vec_anywhere *)to = value; }
INLINE void store_ints(int32_t *to, ints value) { *(ints_anywhere *)to = value; }
INLINE vec splat(float x) { return x - (vec){0}; }
INLINE ints splat_int(int32_t x) { return x - (ints){0}; }
INLINE vec where(ints mask, vec yes, vec no) { return (vec)((mask & (ints)yes) | (~mask & (ints)no)); }
INLINE ints where_ints(ints mask, ints yes, ints no) { return (mask & yes) | (~mask & no); }

/* NaN stays NaN: it is not below zero. */
INLINE vec relu(vec x) { return where(x <= splat(0), splat(0), x); }

/* Whole vectors that hold n numbers, in numbers. */
INLINE int rounded(int n) { return (n + LANES - 1) / LANES * LANES; }
INLINE int narrow_rounded(int n) { return (n + NARROW - 1) / NARROW * NARROW; }
INLINE int at_most(int n, int most) { return n < most ? n : most; }

/* Floats of a cache line, and of a room those before its first one. */
enum { LINE = 16 };
INLINE int64_t unused_floats(const float *room) { return (64 - (uintptr_t)room % 64) % 64 / sizeof(float); }

/* Hands out parts of `room`, each on a cache line of its own. Without a room it only counts. */
INLINE float *take(float *room, int64_t *used, int64_t floats) {
    const int64_t first = *used;
    *used += (floats + LINE - 1) / LINE * LINE;
    return room ? room + first : 0;
}

/* Whether there is a value that is not finite: zero times that is NaN. */
static __attribute__((noinline)) int any_wild(const float *values, int64_t n) {
    vec sums = splat(0);
    const int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) sums += load(values + i) * 0.0f;
    for (int64_t i = whole; i < n; i++) sums[0] += values[i] * 0.0f;
    float sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum != 0;
}

#endif
