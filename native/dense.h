/* Products of matrices in rows, in blocks of four rows by three vectors. Lengths are whole vectors where it says so. */
#ifndef AFBS_DENSE_H
#define AFBS_DENSE_H

#include "vector.h"

/* The sum of the lanes, by halves. */
INLINE float total(vec x) {
#if LANES == 16
    union {
        vec whole;
        narrow half[2];
    } wide = {x};
    const narrow middle = wide.half[0] + wide.half[1];
#else
    const vec middle = x;
#endif
#if LANES >= 8
    union {
        narrow whole;
        quarter half[2];
    } parts = {middle};
    const quarter sums = parts.half[0] + parts.half[1];
#else
    const vec sums = middle;
#endif
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

INLINE void dots(const float *x, int length, const float *w, const float *bias, float *y, int y_step, const int rows,
                 const int columns) {
    vec sums[4][3];
    UNROLLED for (int r = 0; r < rows; r++) UNROLLED for (int c = 0; c < columns; c++) sums[r][c] = splat(0);
    for (int k = 0; k < length; k += LANES) {
        vec weights[3];
        UNROLLED for (int c = 0; c < columns; c++) weights[c] = load(w + (int64_t)c * length + k);
        UNROLLED for (int r = 0; r < rows; r++) {
            const vec value = load(x + (int64_t)r * length + k);
            UNROLLED for (int c = 0; c < columns; c++) sums[r][c] += value * weights[c];
        }
    }
    UNROLLED for (int r = 0; r < rows; r++) UNROLLED for (int c = 0; c < columns; c++)
        y[r * y_step + c] = total(sums[r][c]) + bias[c];
}

/* y (n, outputs) = x (n, length) times w (outputs, length) turned, plus bias. `length` is whole vectors. */
static void dense_forward(int n, int length, int outputs, const float *x, const float *w, const float *bias, float *y,
                          int y_step) {
    for (int o = 0; o < outputs;) {
        const int columns = at_most(outputs - o, 3);
        for (int r = 0; r < n;) {
            const float *from = x + (int64_t)r * length, *weights = w + (int64_t)o * length;
            float *to = y + (int64_t)r * y_step + o;
            const int rows = n - r >= 4 ? 4 : 1;
#define DOTS(a, b) dots(from, length, weights, bias + o, to, y_step, a, b)
            if (columns == 3) rows == 4 ? DOTS(4, 3) : DOTS(1, 3);
            else if (columns == 2) rows == 4 ? DOTS(4, 2) : DOTS(1, 2);
            else rows == 4 ? DOTS(4, 1) : DOTS(1, 1);
#undef DOTS
            r += rows;
        }
        o += columns;
    }
}

INLINE void outer(int terms, const float *a, int a_row, int a_term, const float *b, int b_term, float *c, int c_row,
                  int add, const int rows, const int vectors) {
    vec sums[4][3];
    UNROLLED for (int r = 0; r < rows; r++) UNROLLED for (int v = 0; v < vectors; v++) sums[r][v] = splat(0);
    for (int t = 0; t < terms; t++, a += a_term, b += b_term) {
        vec values[3];
        UNROLLED for (int v = 0; v < vectors; v++) values[v] = load(b + v * LANES);
        UNROLLED for (int r = 0; r < rows; r++) {
            const vec factor = splat(a[r * a_row]);
            UNROLLED for (int v = 0; v < vectors; v++) sums[r][v] += factor * values[v];
        }
    }
    UNROLLED for (int r = 0; r < rows; r++) UNROLLED for (int v = 0; v < vectors; v++) {
        float *to = c + (int64_t)r * c_row + v * LANES;
        store(to, add ? load(to) + sums[r][v] : sums[r][v]);
    }
}

/* c (rows, columns) = or += the sum over `terms` of a's element (row, term) times b's row `term`. `columns` is whole
   vectors; a's element is at row * a_row + term * a_term, so a may be turned. */
static void product(int rows, int terms, int columns, const float *a, int a_row, int a_term, const float *b, int b_term,
                    float *c, int c_row, int add) {
    for (int v = 0; v < columns;) {
        const int vectors = at_most((columns - v) / LANES, 3);
        for (int r = 0; r < rows;) {
            const float *from = a + (int64_t)r * a_row;
            float *to = c + (int64_t)r * c_row + v;
            const int height = rows - r >= 4 ? 4 : 1;
#define OUTER(p, q) outer(terms, from, a_row, a_term, b + v, b_term, to, c_row, add, p, q)
            if (vectors == 3) height == 4 ? OUTER(4, 3) : OUTER(1, 3);
            else if (vectors == 2) height == 4 ? OUTER(4, 2) : OUTER(1, 2);
            else height == 4 ? OUTER(4, 1) : OUTER(1, 1);
#undef OUTER
            r += height;
        }
        v += vectors * LANES;
    }
}

#endif
