/* no_wgmma.c - the tables of rows that multiply by wgmma, for a build without: they are empty.
 *
 * wgmma is Hopper's alone. `make cuda-blackwell` links this in the place of the files that need it,
 * so that the test of all other rows can run on Blackwell. */
#include "backend/cuda/kernels/parts.h"

cuda_part cuda_fast_grouped(void)
{
    return (cuda_part){NULL, 0};
}

cuda_part cuda_fast_wgmma(void)
{
    return (cuda_part){NULL, 0};
}

cuda_part cuda_fast_fp8(void)
{
    return (cuda_part){NULL, 0};
}

cuda_part cuda_fast_fp8_weight(void)
{
    return (cuda_part){NULL, 0};
}
