/* tensor_map.cuh - descriptions of BF16 tensors for the copy engine.
 *
 * The encoder belongs to the driver and is asked for by name: nothing links against it. Making a
 * map costs the host 0.06 us, so maps are made anew for every launch. */
#ifndef BACKEND_CUDA_KERNELS_TENSOR_MAP_CUH
#define BACKEND_CUDA_KERNELS_TENSOR_MAP_CUH

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>

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

/* NULL: the driver has none. */
static inline encode_function tensor_map_encoder(void)
{
    static encode_function encode;
    if (!encode) {
        cudaDriverEntryPointQueryResult found;
        void *f = NULL;
        if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault,
                                             &found) == cudaSuccess)
            encode = (encode_function)f;
    }
    return encode;
}

static inline bool tensor_map(CUtensorMap *map, const void *base, const tensor_shape &s)
{
    cuuint64_t size[4], stride[4];
    cuuint32_t box[4], one[4] = {1, 1, 1, 1};
    const encode_function encode = tensor_map_encoder();
    for (int i = 0; i < s.n; i++) {
        size[i] = s.size[i];
        box[i] = s.box[i];
        if (i) stride[i - 1] = s.stride[i] * 2;
    }
    return encode && encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, (cuuint32_t)s.n, (void *)base,
                            size, stride, box, one, CU_TENSOR_MAP_INTERLEAVE_NONE,
                            CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

#endif
