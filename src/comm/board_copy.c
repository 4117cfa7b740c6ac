/* board_copy.c - moves the data of a collective that all members have started. */
#include <stdio.h>
#include <string.h>

#include "comm/board.h"

enum { BLOCK = 1024 }; /* floats that are summed at once */

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes && to != from) memmove(to, from, bytes);
}

static void gather(message *const *all, int64_t n)
{
    size_t bytes = (size_t)all[0]->n * all[0]->size;
    for (int64_t to = 0; to < n; to++)
        for (int64_t from = 0; from < n; from++)
            copy(all[to]->y + (size_t)from * bytes, all[from]->x, bytes);
}

static void all_to_all(message *const *all, int64_t n)
{
    size_t bytes = (size_t)all[0]->n * all[0]->size;
    for (int64_t to = 0; to < n; to++)
        for (int64_t from = 0; from < n; from++)
            copy(all[to]->y + (size_t)from * bytes, all[from]->x + (size_t)to * bytes, bytes);
}

/* Adds floats first .. first + count - 1 of every member's list, in the order of places. */
static void sum_block(message *const *all, int64_t n, bool of_y, int64_t first, int64_t count,
                      float *sum)
{
    for (int64_t p = 0; p < n; p++) {
        const float *v = (const float *)(const void *)(of_y ? all[p]->y : all[p]->x) + first;
        for (int64_t i = 0; i < count; i++) sum[i] = p ? sum[i] + v[i] : v[i];
    }
}

static void reduce_scatter(message *const *all, int64_t n)
{
    float sum[BLOCK];
    int64_t size = all[0]->n;
    for (int64_t p = 0; p < n; p++) {
        float *to = (float *)(void *)(all[p]->scratch ? all[p]->scratch : all[p]->y);
        for (int64_t i = 0; i < size; i += BLOCK) {
            int64_t count = size - i < BLOCK ? size - i : BLOCK;
            sum_block(all, n, false, p * size + i, count, sum);
            memcpy(to + i, sum, (size_t)count * sizeof *sum);
        }
    }
    for (int64_t p = 0; p < n; p++)
        if (all[p]->scratch) copy(all[p]->y, all[p]->scratch, (size_t)size * sizeof *sum);
}

static void all_reduce(message *const *all, int64_t n)
{
    float sum[BLOCK];
    for (int64_t i = 0; i < all[0]->n; i += BLOCK) {
        int64_t count = all[0]->n - i < BLOCK ? all[0]->n - i : BLOCK;
        sum_block(all, n, true, i, count, sum);
        for (int64_t p = 0; p < n; p++)
            memcpy((float *)(void *)all[p]->y + i, sum, (size_t)count * sizeof *sum);
    }
}

static const char *exchange(message *const *all, int64_t n, char *text, size_t room)
{
    size_t row = (size_t)all[0]->n * all[0]->size;
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
        copy(all[to]->y, all[p]->x, (size_t)all[p]->n * all[p]->size);
    }
}

static void broadcast(message *const *all, int64_t n)
{
    for (int64_t p = 0; p < n; p++)
        copy(all[p]->y, all[all[0]->step]->y, (size_t)all[0]->n * all[0]->size);
}

static const char *disagreement(message *const *all, int64_t n, char *text, size_t room)
{
    for (int64_t p = 1; p < n; p++) {
        const message *a = all[0], *b = all[p];
        if (a->kind == b->kind && a->n == b->n && a->size == b->size && a->step == b->step)
            continue;
        snprintf(text, room,
                 "rank 0 of the group runs %s %s of %lld (step %lld), rank %d runs %s %s of %lld "
                 "(step %lld)",
                 a->what, a->name ? a->name : "", (long long)a->n, (long long)a->step, (int)p,
                 b->what, b->name ? b->name : "", (long long)b->n, (long long)b->step);
        return text;
    }
    return NULL;
}

const char *board_move(message *const *all, int64_t n, char *text, size_t room)
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
