/* The library's only public names. */
#include "kernels.h"

#define PUBLIC __attribute__((visibility("default")))

extern const afbs_kernels afbs_portable;
#ifdef AFBS_X86
extern const afbs_kernels afbs_avx2, afbs_avx512;
#endif

PUBLIC int32_t afbs_interface(void) { return AFBS_INTERFACE; }

/* Level 0 runs on every processor this library was built for, level 1 needs AVX2 and FMA, level 2 AVX-512. Null: not here. */
PUBLIC const afbs_kernels *afbs_level(int32_t level) {
    if (level == 0) return &afbs_portable;
#ifdef AFBS_X86
    __builtin_cpu_init();
    if (level == 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &afbs_avx2;
    if (level == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return &afbs_avx512;
#endif
    return 0;
}
