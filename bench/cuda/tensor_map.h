/* tensor_map.h - descriptions of BF16 tensors for the copy engine.
 *
 * The encoder belongs to the driver and is asked for by name: nothing links against it. */
#ifndef BENCH_CUDA_TENSOR_MAP_H
#define BENCH_CUDA_TENSOR_MAP_H

#include <cuda.h>
#include "common.h"

typedef CUresult (*encode_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                    const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                    const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                    CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

typedef struct {
    int n;              /* dimensions, the contiguous one first */
    uint64_t size[4];   /* elements */
    uint64_t stride[4]; /* elements; of dimensions 1.. */
    uint32_t box[4];    /* what one copy takes */
} tensor_shape;

static inline CUtensorMap tensor_map(void *base, tensor_shape s)
{
    static encode_function encode;
    if (!encode) {
        cudaDriverEntryPointQueryResult found;
        void *f = NULL;
        CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000,
                                               cudaEnableDefault, &found));
        encode = (encode_function)f;
    }
    CUtensorMap map;
    cuuint64_t size[4], stride[4];
    cuuint32_t box[4], one[4] = {1, 1, 1, 1};
    for (int i = 0; i < s.n; i++) {
        size[i] = s.size[i];
        box[i] = s.box[i];
        if (i) stride[i - 1] = s.stride[i] * 2;
    }
    CUresult r = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, (cuuint32_t)s.n, base, size, stride,
                        box, one, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (r != CUDA_SUCCESS) {
        fprintf(stderr, "cuTensorMapEncodeTiled: error %d\n", (int)r);
        exit(3);
    }
    return map;
}

#endif
