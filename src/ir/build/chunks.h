/* chunks.h - a rank's tokens in parts, for modules that look at each token by itself.
 *
 * A module enters a chunk, builds its operations on views of the chunk's rows, and leaves it;
 * inside, the builder's T and Tc are the chunk's. Buffers that are made inside belong to one chunk:
 * what backward makes again of them is made when their chunk's turn comes, so that only one chunk's
 * lie in memory at a time.
 *
 * I1  A chunk begins at a multiple of CHUNK_ALIGN tokens, so that views of 4 bytes a token begin at
 *     a multiple of the 64 bytes to which buffers are aligned. The last one may be shorter.
 * I2  With TP each rank's chunk i is of its own tokens: together they are tokens of one chunk. */
#ifndef IR_BUILD_CHUNKS_H
#define IR_BUILD_CHUNKS_H

#include "ir/build/build.h"

enum { CHUNK_ALIGN = 16 };

typedef struct token_chunk {
    int64_t first, n; /* tokens of this TP rank */
    int64_t T, Tc;    /* the builder's, outside */
} token_chunk;

/* How many there are; 1: a module takes all tokens at once. */
int64_t chunk_count(const builder *b);

token_chunk chunk_enter(builder *b, int64_t i);
void chunk_leave(builder *b, const token_chunk *c);

/* The chunk's rows of x [T][width]; NONE stays NONE. */
int chunk_rows(builder *b, const token_chunk *c, int x, int64_t width);

#endif
