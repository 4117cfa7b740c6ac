/* megatron_list.c - list expressions.
 *
 * I1  Every list that is made, also one that is thrown away later, counts against WORK_MAX: so
 *     no short text costs much time or memory ("[0]*4096*0+[0]*4096*0+...").
 * I2  Depth is bounded, because the evaluator calls itself. */
#include "config/megatron_list.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WORK_MAX = 64 * PATTERN_ITEMS_MAX, DEPTH_MAX = 16 };

typedef struct cursor {
    arena *a;
    const char *start, *p;
    int depth, work;
    error *err;
} cursor;

static status fail(const cursor *c, const char *what)
{
    return error_set(c->err, ERR_INPUT, "column %td of '%.200s': %s", c->p - c->start + 1, c->start,
                     what);
}

static char peek(cursor *c)
{
    while (isspace((unsigned char)*c->p)) c->p++;
    return *c->p;
}

/* Room for a list of n items. */
static status new_list(cursor *c, int64_t n, value *out)
{
    if (n > PATTERN_ITEMS_MAX || c->work + n > WORK_MAX) /* I1 */
        return fail(c, "the list grows beyond 4096 items");
    c->work += (int)n;
    *out = (value){.kind = V_LIST, .list = {ARENA_ARRAY(c->a, value, n), (int)n}};
    return OK;
}

static status join(cursor *c, value x, value y, value *out)
{
    TRY(new_list(c, (int64_t)x.list.n + y.list.n, out));
    value *items = (value *)out->list.items;
    for (int i = 0; i < out->list.n; i++)
        items[i] = i < x.list.n ? x.list.items[i] : y.list.items[i - x.list.n];
    return OK;
}

static status add(cursor *c, value *x, value y)
{
    if (x->kind != y.kind) return fail(c, "a number and a list cannot be added");
    if (x->kind == V_LIST) return join(c, *x, y, x);
    if (__builtin_add_overflow(x->whole, y.whole, &x->whole))
        return fail(c, "the sum does not fit into 64 bits");
    return OK;
}

static status repeat(cursor *c, value once, int64_t times, value *out)
{
    if (times == 1) return OK;
    int64_t n;
    if (times < 0) times = 0;
    if (__builtin_mul_overflow(once.list.n, times, &n)) n = INT64_MAX;
    TRY(new_list(c, n, out));
    value *items = (value *)out->list.items;
    for (int i = 0; i < out->list.n; i++) items[i] = once.list.items[i % once.list.n];
    return OK;
}

static status multiply(cursor *c, value *x, value y)
{
    if (x->kind == V_LIST && y.kind == V_LIST) return fail(c, "two lists cannot be multiplied");
    if (x->kind == V_LIST) return repeat(c, *x, y.whole, x);
    if (y.kind == V_LIST) {
        int64_t times = x->whole;
        *x = y;
        return repeat(c, y, times, x);
    }
    if (__builtin_mul_overflow(x->whole, y.whole, &x->whole))
        return fail(c, "the product does not fit into 64 bits");
    return OK;
}

static status expression(cursor *c, value *out);

/* Expressions with commas up to `end`; a comma may stand last. `*commas` says whether there was
 * one. */
static status items_up_to(cursor *c, char end, value *out, bool *commas)
{
    int room = 1, n = 0;
    value *items = ARENA_ARRAY(c->a, value, room);
    *commas = false;
    while (peek(c) != end) {
        if (n == PATTERN_ITEMS_MAX || ++c->work > WORK_MAX) return fail(c, "the list is too long");
        if (n == room) {
            value *larger = ARENA_ARRAY(c->a, value, room * 2);
            memcpy(larger, items, sizeof *items * (size_t)n);
            items = larger;
            room *= 2;
        }
        TRY(expression(c, &items[n++]));
        if (peek(c) == ',') {
            *commas = true;
            c->p++;
        } else if (*c->p != end) {
            return fail(c, end ? "a comma or the closing bracket is missing" : "not understood");
        }
    }
    *out = (value){.kind = V_LIST, .list = {items, n}};
    return OK;
}

static status only_numbers(cursor *c, value list)
{
    for (int i = 0; i < list.list.n; i++)
        if (list.list.items[i].kind != V_INT) return fail(c, "a list inside a list");
    return OK;
}

static status bracketed(cursor *c, value *out)
{
    char end = *c->p == '[' ? ']' : ')';
    if (c->depth == DEPTH_MAX) return fail(c, "nested too deeply"); /* I2 */
    c->depth++;
    c->p++;
    bool commas;
    status s = items_up_to(c, end, out, &commas);
    if (s) return s;
    c->depth--;
    if (end == ')' && !commas) {
        if (out->list.n == 0) return fail(c, "empty parentheses");
        *out = out->list.items[0]; /* a group, not a tuple */
    } else if ((s = only_numbers(c, *out))) {
        return s;
    }
    c->p++;
    return OK;
}

static status factor(cursor *c, value *out)
{
    char first = peek(c);
    if (first == '[' || first == '(') return bracketed(c, out);
    if (!isdigit((unsigned char)first) && !(first == '-' && isdigit((unsigned char)c->p[1])))
        return fail(c, first ? "a number or [ is expected" : "the expression ends too early");
    char *rest;
    errno = 0;
    *out = value_of_int(strtoll(c->p, &rest, 10));
    if (errno) return fail(c, "the number does not fit into 64 bits");
    c->p = rest;
    return OK;
}

static status term(cursor *c, value *out)
{
    TRY(factor(c, out));
    while (peek(c) == '*') {
        c->p++;
        value next;
        TRY(factor(c, &next));
        TRY(multiply(c, out, next));
    }
    return OK;
}

static status expression(cursor *c, value *out)
{
    TRY(term(c, out));
    while (peek(c) == '+') {
        c->p++;
        value next;
        TRY(term(c, &next));
        TRY(add(c, out, next));
    }
    return OK;
}

static status evaluate(cursor *c, value *out)
{
    bool commas;
    TRY(items_up_to(c, 0, out, &commas));
    if (out->list.n == 0) return fail(c, "a number or a list is expected");
    if (commas) return only_numbers(c, *out);
    *out = out->list.items[0];
    return OK;
}

status list_expression(arena *a, const char *s, value *out, error *err)
{
    arena *scratch = arena_create();
    cursor c = {.a = scratch, .start = s, .p = s, .err = err};
    value v;
    status st = evaluate(&c, &v);
    if (!st && v.kind == V_LIST) {
        value *items = ARENA_ARRAY(a, value, v.list.n);
        for (int i = 0; i < v.list.n; i++) items[i] = v.list.items[i];
        v.list.items = items;
    }
    arena_destroy(scratch);
    if (!st) *out = v;
    return st;
}
