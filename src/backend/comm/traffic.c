/* traffic.c - which link a message takes, what it sends, and how long an emulated link needs.
 *
 * The emulated link of a level carries what this rank sends over it and, beside that, what it
 * receives: both ways are open at once. On each way messages go one after another in the order of
 * their starts, each start being that of its last member. So a message that is cut into parts takes
 * no less time than whole, and a send to the next stage does not hold up a receive from it. Small
 * blocking calls (STREAM_HOST) are neither counted nor delayed. */
#include "backend/comm/state.h"

void comm_levels(comm *c)
{
    for (int g = 0; g < GROUP_COUNT; g++) {
        const members *who = &c->groups[g];
        c->level[g] = ARENA_ARRAY(c->a, unsigned char, who->n);
        for (int64_t i = 0; i < who->n; i++)
            c->level[g][i] =
                (unsigned char)(who->ranks[i] == c->rank
                                    ? LEVEL_SELF
                                    : LEVEL_NODE + layout_link(&c->s->lay, c->rank, who->ranks[i]));
    }
}

/* Bytes to and from every member. */
typedef struct traffic {
    double sent[LEVEL_COUNT], received[LEVEL_COUNT];
} traffic;

static void all_members(const comm *c, const message *m, double sent, double received, traffic *t)
{
    for (int64_t i = 0; i < c->groups[m->group].n; i++) {
        unsigned char level = c->level[m->group][i];
        t->sent[level] += sent;
        t->received[level] += received;
    }
}

static void exchanged(const comm *c, const message *m, traffic *t)
{
    int64_t n = c->groups[m->group].n;
    double row = (double)message_bytes(m);
    for (int64_t i = 0; i < n; i++) {
        unsigned char level = c->level[m->group][i];
        t->sent[level] += row * m->table[n + i];
        t->received[level] += row * m->table[3 * n + i];
    }
}

/* To the member `step` places on; a shift receives from as many places back. */
static void pair(const comm *c, const message *m, bool sends, bool receives, traffic *t)
{
    const members *who = &c->groups[m->group];
    double bytes = (double)message_bytes(m);
    int64_t on = ((who->place + m->step) % who->n + who->n) % who->n;
    int64_t back =
        m->kind == MESSAGE_SHIFT ? ((who->place - m->step) % who->n + who->n) % who->n : on;
    if (sends) t->sent[c->level[m->group][on]] += bytes;
    if (receives) t->received[c->level[m->group][back]] += bytes;
}

static traffic traffic_of(const comm *c, const message *m)
{
    traffic t = {{0}, {0}};
    const members *who = &c->groups[m->group];
    double block = (double)message_bytes(m);
    switch (m->kind) {
    case MESSAGE_ALL_REDUCE: /* its reduce-scatter and its all-gather */
        all_members(c, m, 2 * block / (double)who->n, 2 * block / (double)who->n, &t);
        break;
    case MESSAGE_EXCHANGE:
        exchanged(c, m, &t);
        break;
    case MESSAGE_SHIFT:
        pair(c, m, true, true, &t);
        break;
    case MESSAGE_SEND:
    case MESSAGE_RECV:
        pair(c, m, m->kind == MESSAGE_SEND, m->kind == MESSAGE_RECV, &t);
        break;
    default:
        all_members(c, m, block, block, &t);
    }
    return t;
}

void comm_count(comm *c, message *m)
{
    if (m->counted) return;
    c->stats.messages[m->stream]++;
    if (m->stream != STREAM_HOST) comm_count_as(c, m, m);
}

void comm_count_as(comm *c, message *m, const message *data)
{
    traffic t = traffic_of(c, data);
    for (int k = LEVEL_NODE; k < LEVEL_COUNT; k++) {
        c->stats.bytes[m->group][k] += t.sent[k];
        m->bytes[WAY_OUT][k] = t.sent[k];
        m->bytes[WAY_IN][k] = t.received[k];
    }
}

void comm_admit(comm *c, message *m)
{
    m->admitted = true;
    m->ready = m->last_start;
    if (!c->delay.on) return;
    for (int k = LEVEL_NODE; k < LEVEL_COUNT; k++)
        for (int w = 0; w < WAY_COUNT; w++) {
            if (m->bytes[w][k] <= 0) continue;
            const comm_link *l = &c->delay.link[k];
            double *free = &c->link_free[w][k];
            *free =
                (m->last_start > *free ? m->last_start : *free) + comm_link_busy(l, m->bytes[w][k]);
            if (*free + l->latency > m->ready) m->ready = *free + l->latency;
        }
}
