/* moe_room.c - capacity of routed buffers, in rows.
 *
 * Token counts are only known at run time, but capacity is planned: the balanced load times
 * moefold.moe_buffer_factor, and never more than can arrive.
 *
 * I1  All members of a group plan the same capacity, because each of them works out which rows do
 *     not fit.
 * I2  Under forced balance the load is the most that round robin gives (round_robin.h): where sizes
 *     divide it is the balanced load, and factor 1 overflows nowhere. Tokens of ranks that feed one
 *     expert are numbered one after another (moe_router.c).
 * I3  A chunk that holds tokens of several ranks is one run of token numbers per rank, and each run
 *     may begin anywhere. */
#include <math.h>

#include "base/maths.h"
#include "ir/build/moe.h"
#include "op/round_robin.h"

int64_t local_experts(const builder *b)
{
    return b->block->moe.experts / b->s->lay.ep;
}

int64_t moe_capacity(const builder *b)
{
    double factor = b->s->j.capacity;
    if (!job_has(&b->s->j, K_CAPACITY) || factor < 0) return 0;
    double even = (double)(b->T * b->block->moe.topk) / (double)b->block->moe.experts;
    int64_t c = (int64_t)ceil(even * factor);
    return c < b->T ? c : b->T;
}

static int64_t room_for(const builder *b, double load, int64_t most)
{
    double factor = b->s->j.force_balance ? 1.0 : 1.5;
    if (job_has(&b->s->j, K_BUFFER_FACTOR)) factor = b->s->j.buffer_factor;
    double wanted = ceil(load * factor * (1 - 1e-12)); /* products of whole numbers stay whole */
    int64_t room = wanted < (double)most ? (int64_t)wanted : most;
    return room > 1 ? room : 1;
}

static int64_t smaller(int64_t a, int64_t c)
{
    return a < c ? a : c;
}

/* The most rows that one expert gets of n tokens in a row under forced balance. */
static int64_t forced_rows(const builder *b, int64_t n)
{
    const job *j = &b->s->j;
    int64_t groups = j->groups, group_topk = j->group_topk;
    round_robin way = round_robin_of(b->block->moe.experts, b->block->moe.topk, groups, group_topk);
    return round_rows(&way, n);
}

int64_t room_of_experts(const builder *b, int64_t rows)
{
    int64_t align = expert_align(b);
    return align > 1 ? round_up(rows + local_experts(b) * (align - 1), align) : rows;
}

int64_t room_of_pairs(const builder *b, const moe_bufs *t)
{
    int64_t pairs = b->T * b->block->moe.topk, most = t->capacity * b->block->moe.experts;
    return t->pad || (t->capacity && most < pairs) ? most : pairs;
}

int64_t room_of_rows(const builder *b, const moe_bufs *t, int64_t n)
{
    const moe_block *moe = &b->block->moe;
    int64_t tokens = n * b->T, here = local_experts(b), most = tokens * smaller(moe->topk, here);
    double load = (double)tokens * (double)moe->topk * (double)here / (double)moe->experts;
    if (t->pad) return n * t->pad * here;
    if (t->capacity) most = smaller(most, n * t->capacity * here);
    if (b->s->j.force_balance) load = (double)(here * forced_rows(b, tokens)); /* I2 */
    if (b->s->j.force_balance && t->out != NONE)
        load = (double)(n * here * forced_rows(b, b->T)); /* I3 */
    return room_for(b, load, most);
}

/* How likely one of a token's K different experts is among n, each as likely as the others. */
static double chance(const moe_block *moe, int64_t n)
{
    double none = 1;
    for (int64_t i = 0; i < moe->topk; i++) {
        double left = (double)(moe->experts - n - i);
        none *= left > 0 ? left / (double)(moe->experts - i) : 0;
    }
    return 1 - none;
}

/* Of one rank's tokens, those with an expert among n. */
static double tokens_for(const builder *b, int64_t n)
{
    if (!b->s->j.force_balance) return (double)b->T * chance(&b->block->moe, n);
    return (double)smaller(b->T, n * forced_rows(b, b->T)); /* I2 */
}

/* EP ranks with a member in a run. */
static int64_t experts_in(const builder *b, const flex_group *g, flex_run r)
{
    return ((r.end - 1) / g->etp - r.first / g->etp + 1) * local_experts(b);
}

/* Does every EP rank lie in one domain? */
static bool is_whole(const flex_group *g)
{
    for (int64_t e = 0; e < g->ep; e++)
        if (flex_domain(g, e * g->etp) != flex_domain(g, (e + 1) * g->etp - 1)) return false;
    return true;
}

/* Members whose rows the first rail of a domain takes: itself, and its share of each other
 * domain's. */
static int64_t sources_of(const flex_group *g, int64_t domain)
{
    flex_run own = flex_run_of(g, domain);
    int64_t n = 1;
    for (int64_t d = 0; d < flex_domains(g); d++) {
        flex_run other = flex_run_of(g, d);
        if (d != domain) n += ceil_div(other.end - other.first, own.end - own.first);
    }
    return n;
}

void flex_rooms(const builder *b, moe_bufs *t, const flex_group *g)
{
    const moe_block *moe = &b->block->moe;
    int64_t D = flex_domains(g), P = flex_members(g), T = b->T;
    double on_member = tokens_for(b, local_experts(b));
    t->room0 = T * (is_whole(g) ? smaller(D, moe->topk) : D);
    t->room1 = t->room_send = 1;
    for (int64_t d = 0; d < D; d++) { /* I1: of the fullest domain */
        flex_run run = flex_run_of(g, d);
        int64_t n = run.end - run.first, from = sources_of(g, d);
        double on_domain = tokens_for(b, experts_in(b, g, run));
        int64_t room = room_for(b, (double)from * on_domain, from * T);
        int64_t send =
            room_for(b, (double)(from * n) * on_member, from * T * smaller(n, moe->topk * g->etp));
        if (room > t->room1) t->room1 = room;
        if (send > t->room_send) t->room_send = send;
    }
    if (D == 1) t->room1 = T;
    t->room2 = room_for(b, (double)P * on_member, P * T);
    t->room = room_of_experts(b, room_of_rows(b, t, P));
}
