/* experts.cuh - which rows are whose: offsets that the program has computed, read on the device. */
#ifndef BACKEND_CUDA_KERNELS_EXPERTS_CUH
#define BACKEND_CUDA_KERNELS_EXPERTS_CUH

#include "backend/cuda/kernels/device.cuh"

struct experts {
    const int32_t *offsets; /* [E+1], ascending */
    int64_t n, room;
    /* Where the rows of e start, within the room. */
    __device__ int64_t start(int64_t e) const
    {
        const int64_t at = offsets[e];
        return at < room ? at : room;
    }
    /* The expert of a row; n: nobody's. The last that starts there or before is the one that has
     * rows, since empty ones end where they start. */
    __device__ int64_t of(int64_t row) const
    {
        int64_t low = 0, high = n; /* start(low) <= row < start(high) */
        if (row >= start(n)) return n;
        while (high - low > 1) {
            const int64_t middle = (low + high) / 2;
            if (start(middle) <= row)
                low = middle;
            else
                high = middle;
        }
        return low;
    }
};

#endif
