/* chunks.c - which tokens a chunk has. */
#include "ir/build/chunks.h"

#include "base/maths.h"

/* Tokens of all chunks but the last. */
static int64_t chunk_size(const builder *b)
{
    return round_up(ceil_div(b->T, b->s->j.sequence_chunks), CHUNK_ALIGN); /* I1 */
}

int64_t chunk_count(const builder *b)
{
    return b->T > 0 ? ceil_div(b->T, chunk_size(b)) : 1;
}

token_chunk chunk_enter(builder *b, int64_t i)
{
    int64_t size = chunk_size(b), left = b->T - i * size;
    token_chunk c = {i * size, left < size ? left : size, b->T, b->Tc};
    b->Tc = b->Tc / b->T * c.n; /* I2 */
    b->T = c.n;
    return c;
}

void chunk_leave(builder *b, const token_chunk *c)
{
    b->T = c->T;
    b->Tc = c->Tc;
}

int chunk_rows(builder *b, const token_chunk *c, int x, int64_t width)
{
    return x == NONE ? NONE : seg_view(b, x, c->first * width, c->n * width);
}
