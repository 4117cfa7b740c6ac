/* route.cu - who sends how many rows to whom: the alltoall dispatcher's tables.
 *
 * Every member knows the offsets of every member's sort, so all work out the same numbers.
 *
 * W1  Rows to an EP rank arrive by source, expert, token. Those past ROOM stay at home, from the
 *     last source on: sender and receiver agree because both count the sources before.
 * W2  Behind the gather over ETP rows stand by etp, source, expert, token; they go to the order
 *     expert, etp, source, token. */
#include "backend/cuda/kernels/tables.cuh"

/* Rows from a source: after how many of the sources before it, and how many. */
struct arrival {
    int64_t start, rows;
};

/* The operands of ROUTE, and what every member knows of all of them. */
struct routing : op_route {
    __device__ int64_t own(void) const
    {
        return PLACE / ETP;
    }
    /* Offsets of the experts that EP rank `to` has, of the rows of (source, member of ETP). */
    __device__ const int32_t *block(int64_t source, int64_t m, int64_t to) const
    {
        return offsets + (source * ETP + m) * (E + 1) + to * (E / EP);
    }
    __device__ int64_t wanted(int64_t source, int64_t m, int64_t to) const
    {
        const int32_t *b = block(source, m, to);
        return b[E / EP] - b[0];
    }
    __device__ arrival from(int64_t source, int64_t m, int64_t to) const
    {
        int64_t before = 0;
        const int64_t rows = wanted(source, m, to);
        for (int64_t s = 0; s < source; s++) before += wanted(s, m, to);
        const int64_t left = before < ROOM ? ROOM - before : 0; /* W1 */
        return {ROOM - left, rows < left ? rows : left};
    }
    __device__ int64_t arriving(int64_t m, int64_t to) const
    {
        const arrival last = from(EP - 1, m, to);
        return last.start + last.rows;
    }
    /* How many rows of local expert e are among those that arrive of a block, and where they begin
     * in it. */
    __device__ arrival of_expert(int64_t source, int64_t m, int64_t e, int64_t rows) const
    {
        const int32_t *b = block(source, m, own());
        const int64_t begin = b[e] - b[0], end = b[e + 1] - b[0];
        const int64_t past = end < rows ? end : rows;
        return {begin, begin < past ? past - begin : 0};
    }
};

/* There: all that came to everybody. Back: to everybody his own. */
static __device__ void etp_tables(const routing &r)
{
    int32_t *there = r.etp;
    int32_t *back = there + 4 * r.ETP;
    const int32_t mine = (int32_t)r.arriving(r.PLACE % r.ETP, r.own());
    int64_t start = 0;
    for (int64_t m = 0; m < r.ETP; m++) {
        const int32_t rows = (int32_t)r.arriving(m, r.own());
        there[SEND_START * r.ETP + m] = 0;
        there[SEND_ROWS * r.ETP + m] = back[RECV_ROWS * r.ETP + m] = mine;
        there[RECV_START * r.ETP + m] = back[SEND_START * r.ETP + m] = (int32_t)start;
        there[RECV_ROWS * r.ETP + m] = back[SEND_ROWS * r.ETP + m] = rows;
        back[RECV_START * r.ETP + m] = (int32_t)(m * r.ROOM);
        start += rows;
    }
}

/* One block: all tables. */
static __global__ void tables_kernel(routing r)
{
    const int64_t own = r.own(), m = r.PLACE % r.ETP, each = r.E / r.EP;
    const int32_t *mine = r.block(own, m, 0);
    for (int64_t i = threadIdx.x; i < r.EP; i += BLOCK) {
        const arrival a = r.from(i, m, own);
        r.ep[SEND_START * r.EP + i] = mine[i * each];
        r.ep[SEND_ROWS * r.EP + i] = (int32_t)r.from(own, m, i).rows;
        r.ep[RECV_START * r.EP + i] = (int32_t)a.start;
        r.ep[RECV_ROWS * r.EP + i] = (int32_t)a.rows;
    }
    for (int64_t e = threadIdx.x; e < each; e += BLOCK) {
        int64_t sum = 0;
        for (int64_t i = 0; i < r.ETP; i++)
            for (int64_t s = 0; s < r.EP; s++)
                sum += r.of_expert(s, i, e, r.from(s, i, own).rows).rows;
        r.starts[e + 1] = (int32_t)sum;
    }
    __syncthreads();
    end_table(r.ep, r.EP);
    if (threadIdx.x) return;
    r.starts[0] = 0;
    for (int64_t e = 0; e < each; e++)
        r.starts[e + 1] = (int32_t)(r.starts[e] + aligned_rows(r.starts[e + 1], r.ALIGN));
    if (r.etp) etp_tables(r);
    int64_t wanted = 0;
    for (int64_t s = 0; s < r.EP; s++) wanted += r.wanted(s, m, own);
    r.demand[0] = (int32_t)wanted;
    r.demand[1] = (int32_t)r.ROOM;
}

/* A block an expert: where its rows go, as they arrive (W2). */
static __global__ void local_kernel(routing r)
{
    const int64_t own = r.own(), e = blockIdx.x;
    int64_t to = r.starts[e], before = 0; /* rows of members of ETP before */
    for (int64_t i = 0; i < r.ETP; i++) {
        for (int64_t s = 0; s < r.EP; s++) {
            const arrival a = r.from(s, i, own), own_rows = r.of_expert(s, i, e, a.rows);
            for (int64_t k = threadIdx.x; k < own_rows.rows; k += BLOCK)
                r.local[before + a.start + own_rows.start + k] = (int32_t)(to + k);
            to += own_rows.rows;
        }
        before += r.arriving(i, own);
    }
}

/* Rows that travelled are the first ones of each block. */
static void keep_rows(const kernel_call *c, const routing &all)
{
    const routing r = all;
    for_each(c, r.T * r.K, [=] __device__(int64_t i) {
        const int32_t row = r.rows[i];
        bool sent = false, whole = true;
        for (int64_t m = 0; m < r.EP; m++) {
            const int32_t start = r.ep[SEND_START * r.EP + m], n = r.ep[SEND_ROWS * r.EP + m];
            sent |= row >= start && row < start + n;
            whole &= n == r.wanted(r.own(), r.PLACE % r.ETP, m);
        }
        r.kept[i] = whole || sent ? row : -1;
    });
}

static void route(const kernel_call *c)
{
    const routing r = {op_route_of(c)};
    tables_kernel<<<1, BLOCK, 0, stream_of(c)>>>(r);
    keep_rows(c, r);
    for_each(c, r.ETP * r.ROOM, [=] __device__(int64_t i) { r.local[i] = -1; });
    local_kernel<<<(unsigned)(r.E / r.EP), BLOCK, 0, stream_of(c)>>>(r);
    if (!r.sums) return;
    for_each(c, r.ROOM * r.ETP, [=] __device__(int64_t i) {
        const int64_t row = i / r.ETP, m = i % r.ETP;
        const bool filled = row < r.arriving(r.PLACE % r.ETP, r.own());
        r.sums[i] = filled ? (int32_t)(m * r.ROOM + row) : -1;
    });
}

extern "C" cuda_part cuda_route(void)
{
    static const kernel rows[] = {
        {.kind = OP_ROUTE, .name = "plain", .launch = route},
    };
    return PART(rows);
}
