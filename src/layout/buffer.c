/* buffer.c - a gradient buffer as a few additions instead of a loop over thousands of experts.
 *
 * I1  bucket_start is a multiple of `unit`, which is a multiple of `align`.
 * I2  n equal weights lie `stride` apart, so where they close a bucket is a division. A run that
 *     starts a bucket closes equal buckets until it is used up. */
#include "layout/buffer.h"

static void close_at(buffer *b, int64_t length, int64_t times)
{
    b->bucket_start = add_sat(b->bucket_start, mul_sat(round_up(length, b->unit), times));
    b->end = b->bucket_start; /* I1 */
}

/* How many of these weights, from `used` elements on, until the bucket is full; no more than one
 * past n, so that a weight alone takes no division. */
static int64_t until_full(const buffer *b, int64_t used, int64_t n, int64_t size, int64_t stride)
{
    if (b->bucket_size < 1) return SIZE_HUGE;
    int64_t missing = b->bucket_size - used - size;
    if (missing <= 0) return 1;
    return n == 1 ? 2 : 1 + ceil_div(missing, stride);
}

void buffer_add(buffer *b, int64_t n, int64_t size, bool alone)
{
    if (size < 1) return;
    int64_t stride = round_up(size, b->align);
    b->last = -1;
    while (n > 0) {
        int64_t used = round_up(b->end, b->align) - b->bucket_start;
        if (alone && used > 0) {
            close_at(b, used, 1);
            used = 0;
        }
        if (b->last < 0) b->last = b->bucket_start + used;
        int64_t fit = alone ? 1 : until_full(b, used, n, size, stride);
        int64_t here = fit < n ? fit : n;
        int64_t length = add_sat(used, add_sat(mul_sat(here - 1, stride), size));
        if (n < fit) {
            b->end = add_sat(b->bucket_start, length);
            return;
        }
        int64_t times = used == 0 ? n / fit : 1; /* I2 */
        close_at(b, length, times);
        n -= times * fit;
    }
}

int64_t buffer_close(buffer *b)
{
    if (b->end > b->bucket_start) close_at(b, b->end - b->bucket_start, 1);
    return b->end;
}
