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

struct routing {
    int64_t n_experts, ep, etp, place, room, align;
    const int32_t *offsets; /* [P][E+1] */
    __device__ int64_t own(void) const
    {
        return place / etp;
    }
    /* Offsets of the experts that EP rank `to` has, of the rows of (source, member of ETP). */
    __device__ const int32_t *block(int64_t source, int64_t m, int64_t to) const
    {
        return offsets + (source * etp + m) * (n_experts + 1) + to * (n_experts / ep);
    }
    __device__ int64_t wanted(int64_t source, int64_t m, int64_t to) const
    {
        const int32_t *b = block(source, m, to);
        return b[n_experts / ep] - b[0];
    }
    __device__ arrival from(int64_t source, int64_t m, int64_t to) const
    {
        int64_t before = 0;
        const int64_t rows = wanted(source, m, to);
        for (int64_t s = 0; s < source; s++) before += wanted(s, m, to);
        const int64_t left = before < room ? room - before : 0; /* W1 */
        return {room - left, rows < left ? rows : left};
    }
    __device__ int64_t arriving(int64_t m, int64_t to) const
    {
        const arrival last = from(ep - 1, m, to);
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

static routing routing_of(const kernel_call *c)
{
    const int64_t *d = c->o->dim;
    return {d[DIM_ROUTE_E],
            d[DIM_ROUTE_EP],
            d[DIM_ROUTE_ETP],
            d[DIM_ROUTE_PLACE],
            d[DIM_ROUTE_ROOM],
            d[DIM_ROUTE_ALIGN],
            ints_in(c, IN_ROUTE_offsets)};
}

struct route_tables {
    int32_t *ep;     /* [6][EP] */
    int32_t *etp;    /* [8][ETP], there and back; may be missing */
    int32_t *starts; /* [E/EP+1] */
    int32_t *demand; /* [2] */
};

/* There: all that came to everybody. Back: to everybody his own. */
static __device__ void etp_tables(const routing &r, int32_t *there)
{
    int32_t *back = there + 4 * r.etp;
    const int32_t mine = (int32_t)r.arriving(r.place % r.etp, r.own());
    int64_t start = 0;
    for (int64_t m = 0; m < r.etp; m++) {
        const int32_t rows = (int32_t)r.arriving(m, r.own());
        there[SEND_START * r.etp + m] = 0;
        there[SEND_ROWS * r.etp + m] = back[RECV_ROWS * r.etp + m] = mine;
        there[RECV_START * r.etp + m] = back[SEND_START * r.etp + m] = (int32_t)start;
        there[RECV_ROWS * r.etp + m] = back[SEND_ROWS * r.etp + m] = rows;
        back[RECV_START * r.etp + m] = (int32_t)(m * r.room);
        start += rows;
    }
}

/* One block: all tables. */
static __global__ void tables_kernel(routing r, route_tables t)
{
    const int64_t own = r.own(), m = r.place % r.etp, each = r.n_experts / r.ep;
    const int32_t *mine = r.block(own, m, 0);
    for (int64_t i = threadIdx.x; i < r.ep; i += BLOCK) {
        const arrival a = r.from(i, m, own);
        t.ep[SEND_START * r.ep + i] = mine[i * each];
        t.ep[SEND_ROWS * r.ep + i] = (int32_t)r.from(own, m, i).rows;
        t.ep[RECV_START * r.ep + i] = (int32_t)a.start;
        t.ep[RECV_ROWS * r.ep + i] = (int32_t)a.rows;
    }
    for (int64_t e = threadIdx.x; e < each; e += BLOCK) {
        int64_t sum = 0;
        for (int64_t i = 0; i < r.etp; i++)
            for (int64_t s = 0; s < r.ep; s++)
                sum += r.of_expert(s, i, e, r.from(s, i, own).rows).rows;
        t.starts[e + 1] = (int32_t)sum;
    }
    __syncthreads();
    end_table(t.ep, r.ep);
    if (threadIdx.x) return;
    t.starts[0] = 0;
    for (int64_t e = 0; e < each; e++)
        t.starts[e + 1] = (int32_t)(t.starts[e] + aligned_rows(t.starts[e + 1], r.align));
    if (t.etp) etp_tables(r, t.etp);
    int64_t wanted = 0;
    for (int64_t s = 0; s < r.ep; s++) wanted += r.wanted(s, m, own);
    t.demand[0] = (int32_t)wanted;
    t.demand[1] = (int32_t)r.room;
}

/* A block an expert: where its rows go, as they arrive (W2). */
static __global__ void local_kernel(routing r, const int32_t *starts, int32_t *local)
{
    const int64_t own = r.own(), e = blockIdx.x;
    int64_t to = starts[e], before = 0; /* rows of members of ETP before */
    for (int64_t i = 0; i < r.etp; i++) {
        for (int64_t s = 0; s < r.ep; s++) {
            const arrival a = r.from(s, i, own), own_rows = r.of_expert(s, i, e, a.rows);
            for (int64_t k = threadIdx.x; k < own_rows.rows; k += BLOCK)
                local[before + a.start + own_rows.start + k] = (int32_t)(to + k);
            to += own_rows.rows;
        }
        before += r.arriving(i, own);
    }
}

/* Rows that travelled are the first ones of each block. */
static void keep_rows(const kernel_call *c)
{
    const int64_t ep = c->o->dim[DIM_ROUTE_EP];
    const int32_t *rows = ints_in(c, IN_ROUTE_rows), *table = ints_out(c, OUT_ROUTE_ep);
    int32_t *kept = ints_out(c, OUT_ROUTE_kept);
    const routing r = routing_of(c);
    for_each(c, c->o->dim[DIM_ROUTE_T] * c->o->dim[DIM_ROUTE_K], [=] __device__(int64_t i) {
        const int32_t row = rows[i];
        bool sent = false, all = true;
        for (int64_t m = 0; m < ep; m++) {
            const int32_t start = table[SEND_START * ep + m], n = table[SEND_ROWS * ep + m];
            sent |= row >= start && row < start + n;
            all &= n == r.wanted(r.own(), r.place % r.etp, m);
        }
        kept[i] = all || sent ? row : -1;
    });
}

static void route(const kernel_call *c)
{
    const routing r = routing_of(c);
    int32_t *local = ints_out(c, OUT_ROUTE_local), *sums = ints_out(c, OUT_ROUTE_sums);
    const route_tables t = {ints_out(c, OUT_ROUTE_ep), ints_out(c, OUT_ROUTE_etp),
                            ints_out(c, OUT_ROUTE_starts), ints_out(c, OUT_ROUTE_demand)};
    tables_kernel<<<1, BLOCK, 0, stream_of(c)>>>(r, t);
    keep_rows(c);
    for_each(c, r.etp * r.room, [=] __device__(int64_t i) { local[i] = -1; });
    local_kernel<<<(unsigned)(r.n_experts / r.ep), BLOCK, 0, stream_of(c)>>>(r, t.starts, local);
    if (!sums) return;
    for_each(c, r.room * r.etp, [=] __device__(int64_t i) {
        const int64_t row = i / r.etp, m = i % r.etp;
        const bool filled = row < r.arriving(r.place % r.etp, r.own());
        sums[i] = filled ? (int32_t)(m * r.room + row) : -1;
    });
}

extern "C" cuda_part cuda_route(void)
{
    static const kernel rows[] = {
        {OP_ROUTE, "plain", NULL, NULL, NULL, NULL, route},
    };
    return PART(rows);
}
