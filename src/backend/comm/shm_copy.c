/* shm_transport_copy.c - moves the data of a collective that all members have started. */
#include <stdio.h>
#include <string.h>

#include "backend/comm/shm.h"
#include "backend/comm/adder.h"

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes && to != from) memmove(to, from, bytes);
}

static void gather(message *const *all, int64_t n)
{
    size_t bytes = message_bytes(all[0]);
    for (int64_t to = 0; to < n; to++)
        for (int64_t from = 0; from < n; from++)
            copy(all[to]->y + (size_t)from * bytes, all[from]->x, bytes);
}

static void all_to_all(message *const *all, int64_t n)
{
    size_t bytes = message_bytes(all[0]);
    for (int64_t to = 0; to < n; to++)
        for (int64_t from = 0; from < n; from++)
            copy(all[to]->y + (size_t)from * bytes, all[from]->x + (size_t)to * bytes, bytes);
}

/* Adds elements first .. first + n - 1 of every member's list. */
static void sum_all(message *const *all, int64_t members_n, int64_t first, int64_t n, adder *s)
{
    const message *m = all[0];
    for (int64_t p = 0; p < members_n; p++) {
        const char *list = m->kind == MESSAGE_ALL_REDUCE ? all[p]->y : all[p]->x;
        adder_add(s, m->type, list + dtype_bytes(m->type, first), n, p == 0);
    }
}

/* Where y is x's own part, nobody else's sum reads what it overwrites. */
static void reduce_scatter(message *const *all, int64_t n)
{
    adder s;
    int64_t size = all[0]->n;
    dtype type = all[0]->type;
    for (int64_t p = 0; p < n; p++) {
        for (int64_t i = 0; i < size; i += ADDER_BLOCK) {
            int64_t count = size - i < ADDER_BLOCK ? size - i : ADDER_BLOCK;
            sum_all(all, n, p * size + i, count, &s);
            adder_take(&s, type, all[p]->y + dtype_bytes(type, i), count);
        }
    }
}

static void all_reduce(message *const *all, int64_t n)
{
    adder s;
    dtype type = all[0]->type;
    for (int64_t i = 0; i < all[0]->n; i += ADDER_BLOCK) {
        int64_t count = all[0]->n - i < ADDER_BLOCK ? all[0]->n - i : ADDER_BLOCK;
        sum_all(all, n, i, count, &s);
        for (int64_t p = 0; p < n; p++)
            adder_take(&s, type, all[p]->y + dtype_bytes(type, i), count);
    }
}

static const char *exchange(message *const *all, int64_t n, char *text, size_t room)
{
    size_t row = message_bytes(all[0]);
    for (int64_t from = 0; from < n; from++) {
        for (int64_t to = 0; to < n; to++) {
            const int32_t *s = all[from]->table, *r = all[to]->table;
            int32_t sent = s[n + to], wanted = r[3 * n + from];
            if (sent != wanted || sent < 0) {
                snprintf(text, room, "rank %d of the group sends %d row%s; rank %d expects %d",
                         (int)from, sent, sent == 1 ? "" : "s", (int)to, wanted);
                return text;
            }
            copy(all[to]->y + (size_t)r[2 * n + from] * row, all[from]->x + (size_t)s[to] * row,
                 (size_t)sent * row);
        }
    }
    return NULL;
}

static void shift(message *const *all, int64_t n)
{
    for (int64_t p = 0; p < n; p++) {
        int64_t to = ((p + all[p]->step) % n + n) % n;
        copy(all[to]->y, all[p]->x, message_bytes(all[p]));
    }
}

static void broadcast(message *const *all, int64_t n)
{
    for (int64_t p = 0; p < n; p++) copy(all[p]->y, all[all[0]->step]->y, message_bytes(all[0]));
}

static const char *disagreement(message *const *all, int64_t n, char *text, size_t room)
{
    for (int64_t p = 1; p < n; p++) {
        const message *a = all[0], *b = all[p];
        if (a->kind == b->kind && a->n == b->n && a->type == b->type && a->step == b->step)
            continue;
        snprintf(
            text, room,
            "rank 0 of the group runs %s %s of %lld %s (step %lld), rank %d runs %s %s of %lld "
            "%s (step %lld)",
            a->what, a->name ? a->name : "", (long long)a->n, dtype_name(a->type),
            (long long)a->step, (int)p, b->what, b->name ? b->name : "", (long long)b->n,
            dtype_name(b->type), (long long)b->step);
        return text;
    }
    return NULL;
}

const char *shm_transport_move(message *const *all, int64_t n, char *text, size_t room)
{
    if (disagreement(all, n, text, room)) return text;
    switch (all[0]->kind) {
    case MESSAGE_GATHER:
        gather(all, n);
        return NULL;
    case MESSAGE_REDUCE_SCATTER:
        reduce_scatter(all, n);
        return NULL;
    case MESSAGE_ALL_REDUCE:
        all_reduce(all, n);
        return NULL;
    case MESSAGE_ALL_TO_ALL:
        all_to_all(all, n);
        return NULL;
    case MESSAGE_EXCHANGE:
        return exchange(all, n, text, room);
    case MESSAGE_SHIFT:
        shift(all, n);
        return NULL;
    case MESSAGE_BROADCAST:
        broadcast(all, n);
        return NULL;
    default:
        snprintf(text, room, "%s is not a collective", all[0]->what);
        return text;
    }
}
