/* plain_moe_route.c - who sends how many rows to whom: the alltoall dispatcher's tables.
 *
 * Every member knows the offsets of every member's sort, so all work out the same numbers.
 *
 * W1  Rows to an EP rank arrive by source, expert, token. Those past ROOM stay at home, from the
 *     last source on: sender and receiver agree because both count the sources before.
 * W2  Behind the gather over ETP rows stand by etp, source, expert, token; they go to the order
 *     expert, etp, source, token, which is Megatron's. */
#include "backend/cpu/kernels/plain_moe.h"
#include "op/op_operands.h"

#include <string.h>

typedef struct routing {
    int64_t E, ep, etp, place, room, align;
    const int32_t *offsets; /* [P][E+1] */
} routing;

static routing routing_of(const op *o, const int32_t *offsets)
{
    return (routing){o->dim[DIM_ROUTE_E],
                     o->dim[DIM_ROUTE_EP],
                     o->dim[DIM_ROUTE_ETP],
                     o->dim[DIM_ROUTE_PLACE],
                     o->dim[DIM_ROUTE_ROOM],
                     o->dim[DIM_ROUTE_ALIGN],
                     offsets};
}

/* Offsets of the experts that EP rank `to` has, of the rows of (source, etp). */
static const int32_t *block_of(const routing *r, int64_t source, int64_t etp, int64_t to)
{
    return r->offsets + (source * r->etp + etp) * (r->E + 1) + to * (r->E / r->ep);
}

static int64_t rows_wanted(const routing *r, int64_t source, int64_t etp, int64_t to)
{
    const int32_t *block = block_of(r, source, etp, to);
    return block[r->E / r->ep] - block[0];
}

/* Rows that arrive at (to, etp) from `source`, and from those before it. */
typedef struct arrival {
    int64_t start, rows;
} arrival;

static arrival arrival_of(const routing *r, int64_t source, int64_t etp, int64_t to)
{
    int64_t before = 0, wanted = rows_wanted(r, source, etp, to);
    for (int64_t s = 0; s < source; s++) before += rows_wanted(r, s, etp, to);
    int64_t left = before < r->room ? r->room - before : 0; /* W1 */
    return (arrival){r->room - left, wanted < left ? wanted : left};
}

/* Rows that arrive at (to, etp) from all. */
static int64_t rows_arriving(const routing *r, int64_t etp, int64_t to)
{
    arrival last = arrival_of(r, r->ep - 1, etp, to);
    return last.start + last.rows;
}

static void ep_table(const routing *r, int32_t *table /* [6][EP] */)
{
    int64_t own = r->place / r->etp, etp = r->place % r->etp, EP = r->ep;
    const int32_t *mine = block_of(r, own, etp, 0);
    for (int64_t m = 0; m < EP; m++) {
        arrival from = arrival_of(r, m, etp, own);
        table[SEND_START * EP + m] = mine[m * (r->E / EP)];
        table[SEND_ROWS * EP + m] = (int32_t)arrival_of(r, own, etp, m).rows;
        table[RECV_START * EP + m] = (int32_t)from.start;
        table[RECV_ROWS * EP + m] = (int32_t)from.rows;
    }
    table_end(table, EP);
}

/* There: all that came to everybody. Back: to everybody his own. */
static void etp_tables(const routing *r, int32_t *there /* [8][ETP] */)
{
    int64_t ETP = r->etp, own = r->place / ETP, start = 0;
    int32_t *back = there + 4 * ETP; /* [4][ETP] */
    int32_t mine = (int32_t)rows_arriving(r, r->place % ETP, own);
    for (int64_t m = 0; m < ETP; m++) {
        int32_t rows = (int32_t)rows_arriving(r, m, own);
        there[SEND_START * ETP + m] = 0;
        there[SEND_ROWS * ETP + m] = back[RECV_ROWS * ETP + m] = mine;
        there[RECV_START * ETP + m] = back[SEND_START * ETP + m] = (int32_t)start;
        there[RECV_ROWS * ETP + m] = back[SEND_ROWS * ETP + m] = rows;
        back[RECV_START * ETP + m] = (int32_t)(m * r->room);
        start += rows;
    }
}

/* How many rows of local expert e are among the first `rows` of a block. */
static int64_t rows_of_expert(const int32_t *block, int64_t e, int64_t rows)
{
    int64_t begin = block[e] - block[0], end = block[e + 1] - block[0];
    if (end > rows) end = rows;
    return begin < end ? end - begin : 0;
}

/* Adds the rows of every block, in the order of arrival, to their expert's: to starts[e], or with
 * `local` as places from starts[e] on, which moves to the end of the expert's rows. */
static void for_arrivals(const routing *r, int32_t *starts, int32_t *local)
{
    int64_t own = r->place / r->etp, n_experts = r->E / r->ep, n = 0;
    for (int64_t i = 0; i < r->etp; i++)
        for (int64_t s = 0; s < r->ep; s++) {
            int64_t rows = arrival_of(r, s, i, own).rows;
            for (int64_t e = 0; e < n_experts; e++) {
                int64_t count = rows_of_expert(block_of(r, s, i, own), e, rows);
                for (int64_t k = 0; local && k < count; k++) local[n++] = starts[e] + (int32_t)k;
                starts[e] += (int32_t)count;
            }
        }
}

static void local_rows(const routing *r, int32_t *local /* [ETP*ROOM] */, int32_t *starts)
{
    int64_t n = r->E / r->ep;
    memset(starts, 0, (size_t)(n + 1) * sizeof *starts);
    for_arrivals(r, starts, NULL);
    for (int32_t e = 0, sum = 0; e <= n; e++) {
        int32_t count = starts[e];
        starts[e] = sum;
        sum += (int32_t)aligned_rows(count, r->align);
    }
    memset(local, -1, (size_t)(r->etp * r->room) * sizeof *local);
    for_arrivals(r, starts, local); /* W2: behind starts[e], aligned, is now the next */
    for (int64_t e = n; e > 0; e--) starts[e] = (int32_t)aligned_rows(starts[e - 1], r->align);
    starts[0] = 0;
}

/* Is a row among those that travelled, which are the first ones of each block? */
static bool travelled(const int32_t *table, int64_t EP, int32_t row)
{
    for (int64_t m = 0; m < EP; m++) {
        int32_t start = table[SEND_START * EP + m];
        if (row >= start && row < start + table[SEND_ROWS * EP + m]) return true;
    }
    return false;
}

static void kept_rows(const op *o, const routing *r, void *const *in, void *const *out)
{
    const int32_t *rows = in[IN_ROUTE_rows];  /* [T][K] */
    const int32_t *table = out[OUT_ROUTE_ep]; /* [6][EP] */
    int32_t *kept = out[OUT_ROUTE_kept];      /* [T][K] */
    int64_t EP = r->ep, n = o->dim[DIM_ROUTE_T] * o->dim[DIM_ROUTE_K];
    bool all = true;
    for (int64_t m = 0; m < EP; m++)
        all &= table[SEND_ROWS * EP + m] == rows_wanted(r, r->place / r->etp, r->place % r->etp, m);
    for (int64_t i = 0; i < n; i++) kept[i] = all || travelled(table, EP, rows[i]) ? rows[i] : -1;
}

static void sum_parts(const routing *r, int64_t n, int32_t *sums /* [ROOM][ETP] */)
{
    for (int64_t i = 0; i < r->room; i++)
        for (int64_t m = 0; m < r->etp; m++)
            sums[i * r->etp + m] = i < n ? (int32_t)(m * r->room + i) : -1;
}

static void plain_route(const op *o, void *const *in, void *const *out)
{
    const op_route a = op_route_of(o, in, out);
    routing r = routing_of(o, a.offsets);
    int64_t own = r.place / r.etp, etp = r.place % r.etp, wanted = 0;
    ep_table(&r, a.ep);
    kept_rows(o, &r, in, out);
    if (a.etp) etp_tables(&r, a.etp);
    local_rows(&r, a.local, a.starts);
    if (a.sums) sum_parts(&r, rows_arriving(&r, etp, own), a.sums);
    for (int64_t s = 0; s < r.ep; s++) wanted += rows_wanted(&r, s, etp, own);
    a.demand[0] = (int32_t)wanted;
    a.demand[1] = (int32_t)r.room;
}

/* The fullest of all so far. Room 0 says that there was none yet. */
static void plain_demand(const op *o, void *const *in, void *const *out)
{
    const op_demand a = op_demand_of(o, in, out);
    for (int64_t i = 0; i < a.N; i++) {
        double wanted = a.demand[2 * i], room = a.demand[2 * i + 1];
        if ((double)a.most[1] > 0 && wanted * (double)a.most[1] <= (double)a.most[0] * room)
            continue;
        a.most[0] = (real)wanted;
        a.most[1] = (real)room;
    }
}

kernel_rows plain_moe_route(void)
{
    static const kernel rows[] = {
        {OP_ROUTE, "plain", .run = plain_route},
        {OP_DEMAND, "plain", .run = plain_demand},
    };
    return (kernel_rows){rows, sizeof rows / sizeof rows[0]};
}
