/* quant.h - how quantised tensors lie in memory: forms, blocks, scales.
 *
 * I1  A form has blocks along the size that GEMMs sum over: 1 x `block` elements, or square ones
 *     where the operation says so (weights by blocks of 128 x 128). A block at an edge is as short
 *     as the edge leaves it.
 * I2  Scales lie as cuBLASLt reads them, on Hopper (VEC128_32F, BLK128x128_32F) those of 1 x 128
 *     blocks of [M][K] as s[K blocks][M rounded up to 4] and of 128 x 128 blocks as
 *     s[M blocks][K blocks rounded up to 4], on Blackwell (VEC32_UE8M0, VEC16_UE4M3) those of MXFP8
 *     and NVFP4 in tiles of 128 rows x 4 blocks, 512 bytes each, s[M tiles][K tiles][32][4][4]: row
 *     r of a tile is at [r % 32][r / 32]. What is rounded up is zero.
 * I3  Rows of FP4 codes are whole bytes. */
#ifndef OP_QUANT_H
#define OP_QUANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/narrow.h"

typedef enum quant_form {
    QUANT_NONE,
    QUANT_TENSOR, /* one factor for each tensor, from its present maximum */
    QUANT_BLOCK,  /* FP32 scales that are powers of two, 1 x 128 and 128 x 128 */
    QUANT_MX,     /* E8M0 scales, 1 x 32 */
    QUANT_NV,     /* E4M3 scales, 1 x 16, and a factor for each tensor */
    QUANT_FORMS
} quant_form;

typedef struct quant_info {
    const char *name; /* for people */
    int64_t block;    /* elements; 0: no scales */
    int64_t align;    /* of an expert's first row */
    dtype scale;
    bool square, factor; /* are blocks of weights square? is there a factor of the tensor? */
} quant_info;

static inline quant_info quant_info_of(quant_form f)
{
    static const quant_info all[QUANT_FORMS] = {
        {"none", 0, 1, DTYPE_F32, false, false},
        {"tensorwise", 0, 128, DTYPE_F32, false, true},
        {"blockwise", 128, 128, DTYPE_F32, true, false},
        {"MXFP8", 32, 32, DTYPE_E8M0, false, false},
        {"NVFP4", 16, 16, DTYPE_E4M3, false, true},
    };
    return all[f];
}

/* A matrix of codes, contiguous along `cols`. */
typedef struct quant_shape {
    quant_form form;
    bool square;
    int64_t rows, cols;
} quant_shape;

/* Elements of a block; 0: no scales. */
ON_BOTH int64_t quant_block(quant_form f)
{
    return f == QUANT_BLOCK ? 128 : f == QUANT_MX ? 32 : f == QUANT_NV ? 16 : 0;
}

ON_BOTH int64_t quant_blocks(int64_t n, int64_t block)
{
    return (n + block - 1) / block;
}

ON_BOTH int64_t quant_up4(int64_t n)
{
    return (n + 3) / 4 * 4;
}

/* Elements of a row of codes (I3), and of all scales; 0: none. */
ON_BOTH int64_t quant_row(dtype code, int64_t cols)
{
    return code == DTYPE_FP4 ? cols + cols % 2 : cols;
}

/* Bytes of that many codes, whose rows are whole bytes. */
ON_BOTH int64_t quant_code_bytes(dtype code, int64_t n)
{
    return code == DTYPE_FP4 ? n / 2 : n;
}

/* Are scales bytes in tiles (I2)? */
enum { QUANT_TILE_ROWS = 128, QUANT_TILE_BLOCKS = 4, QUANT_TILE = 512 };
ON_BOTH bool quant_is_tiled(quant_form f)
{
    return f == QUANT_MX || f == QUANT_NV;
}

ON_BOTH int64_t quant_scales(quant_shape z)
{
    int64_t block = quant_block(z.form);
    if (!block) return 0;
    int64_t across = quant_blocks(z.cols, block);
    if (quant_is_tiled(z.form))
        return quant_blocks(z.rows, QUANT_TILE_ROWS) * quant_blocks(across, QUANT_TILE_BLOCKS) *
               QUANT_TILE;
    return z.square ? quant_blocks(z.rows, block) * quant_up4(across) : across * quant_up4(z.rows);
}

/* Where the scale of element (i, j) lies. */
ON_BOTH int64_t quant_scale_at(quant_shape z, int64_t i, int64_t j)
{
    int64_t block = quant_block(z.form), across = quant_blocks(z.cols, block), b = j / block;
    if (quant_is_tiled(z.form)) {
        int64_t tiles = quant_blocks(across, QUANT_TILE_BLOCKS);
        int64_t tile = i / QUANT_TILE_ROWS * tiles + b / QUANT_TILE_BLOCKS;
        return tile * QUANT_TILE + i % 32 * 16 + i / 32 % 4 * 4 + b % QUANT_TILE_BLOCKS;
    }
    return z.square ? i / block * quant_up4(across) + b : b * quant_up4(z.rows) + i;
}

/* The operands of a quantised GEMM: a [rows][cols] and b [rows][cols], both contiguous along
 * what is summed; a weight's b has `parts` of them. The result is [a.rows][b.rows]. */
#ifdef __cplusplus
extern "C" {
#endif

struct op;
typedef struct quant_pair {
    quant_shape a, b;
    dtype at, bt;
    int64_t parts;
    bool grouped, weight_gradient;
} quant_pair;
quant_pair quant_pair_of(const struct op *o);

/* Bytes of both operands in FP32: what a CPU multiplies. */
int64_t quant_gemm_room(const struct op *o);

#ifdef __cplusplus
}
#endif

#endif
