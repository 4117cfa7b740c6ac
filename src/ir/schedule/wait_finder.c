/* wait_finder.c - conflicts with what came before in a list.
 *
 * I1  Two operations conflict where one writes memory that the other touches; memory, not buffers:
 *     temporaries share places.
 * I2  An operation waits for each message that it conflicts with and that neither its stream nor
 *     the compute stream has waited for, and, if it is a message, for the last conflicting
 *     operation of the compute stream.
 *     Copies (and what the host computes between them) and messages know nothing of each other by
 *     what the compute stream has waited for: each waits for the last operation of the other's
 *     stream that it conflicts with. */
#include "ir/schedule/wait_finder.h"

static uint64_t spaces_of(touched t)
{
    uint64_t bits = 0;
    for (int i = 0; i < t.n; i++) bits |= (uint64_t)1 << ((uint64_t)t.list[i].space % 64);
    return bits;
}

static bool conflict(const wait_finder *f, int event, touched t, uint64_t spaces) /* I1 */
{
    if (!(f->spaces[event] & spaces)) return false;
    touched k = f->t[event];
    for (int i = 0; i < k.n; i++)
        for (int j = 0; j < t.n; j++)
            if (touch_conflict(&k.list[i], &t.list[j])) return true;
    return false;
}

void wait_finder_init(wait_finder *f, int n, arena *a)
{
    *f = (wait_finder){.t = ARENA_RAW(a, touched, n + 1),
                       .spaces = ARENA_RAW(a, uint64_t, n + 1),
                       .stream = ARENA_RAW(a, unsigned char, n + 1),
                       .flight = ARENA_RAW(a, struct flight, n + 1)};
}

/* The last operation of a stream that it conflicts with; 0: none. */
static int last_conflict(const wait_finder *f, op_stream stream, touched t, uint64_t spaces)
{
    for (int e = f->n; e >= 1; e--)
        if (f->spaces[e] & spaces && f->stream[e] == stream && conflict(f, e, t, spaces)) return e;
    return 0;
}

/* Those under way; the compute stream has waited for them then. */
static int find_messages(wait_finder *f, const op *o, touched t, uint64_t spaces, int *events)
{
    bool message = op_is_comm(o->kind);
    int n = 0, kept = 0;
    for (int i = 0; i < f->n_flight; i++) {
        struct flight k = f->flight[i];
        bool known = message && (k.met || k.copy);
        bool waits = !known && conflict(f, k.event, t, spaces);
        if (waits) events[n++] = k.event;
        if (waits && o->stream == STREAM_COMPUTE) continue;
        k.met |= waits;
        f->flight[kept++] = k;
    }
    f->n_flight = kept;
    return n;
}

/* Copies to and from the host, and what the host computes between them. */
static bool is_of_host(op_kind k)
{
    return op_is_async(k) && !op_is_comm(k);
}

static void put(wait_finder *f, const op *o, touched t, uint64_t spaces, bool beside)
{
    int e = ++f->n;
    f->t[e] = t;
    f->spaces[e] = spaces;
    f->stream[e] = (unsigned char)o->stream;
    if (!beside) return;
    bool copy = is_of_host(o->kind);
    f->copies |= copy;
    f->flight_spaces |= spaces;
    f->flight[f->n_flight++] = (struct flight){.event = e, .copy = copy};
}

int wait_finder_next(wait_finder *f, const op *o, touched t, int *events) /* I2 */
{
    uint64_t spaces = spaces_of(t);
    bool beside = op_is_async(o->kind), copy = is_of_host(o->kind);
    int n = 0;
    if (!copy && f->flight_spaces & spaces) n = find_messages(f, o, t, spaces, events);
    for (int s = 0; beside && s < STREAM_COUNT; s++) {
        bool copies = f->copies && (s == STREAM_COPY || s == STREAM_COPY_BACK || s == STREAM_HOST);
        if (s == (int)o->stream || !(copy || copies || s == STREAM_COMPUTE)) continue;
        int e = last_conflict(f, (op_stream)s, t, spaces);
        if (e) events[n++] = e;
    }
    if (!(o->flags & ACROSS)) put(f, o, t, spaces, beside);
    return n;
}

int wait_finder_left(const wait_finder *f, int *events)
{
    for (int i = 0; i < f->n_flight; i++) events[i] = f->flight[i].event;
    return f->n_flight;
}
