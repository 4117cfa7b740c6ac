/* match.c - every collective over its group, every send with its receive.
 *
 * Lanes with the same id have the same messages in the same order (groups.c), so a group agrees
 * when its members' ids do. Only where ids differ are messages looked at, to say what is wrong. */
#include <inttypes.h>
#include <string.h>

#include "predict/audit/state.h"

enum { LOOK_AHEAD = 256 };

/* Two lanes side by side, at their first difference. */
typedef struct difference {
    int64_t at; /* how many messages agree before it */
    lane_cursor a, b;
    bool has_a, has_b;
} difference;

static bool agree(const lane_cursor *a, const lane_cursor *b)
{
    return entries_agree(lane_item(a), lane_entry(a), lane_item(b), lane_entry(b));
}

static difference first_difference(const audit_trace *a, int lane_a, const audit_trace *b,
                                   int lane_b)
{
    difference d = {.a = lane_start(a, lane_a), .b = lane_start(b, lane_b)};
    for (;; d.at++) {
        d.has_a = lane_a >= 0 && lane_next(&d.a);
        d.has_b = lane_b >= 0 && lane_next(&d.b);
        if (!d.has_a || !d.has_b || !agree(&d.a, &d.b)) return d;
    }
}

/* Does the message come later, after how many? -1: not soon. */
static int comes_later(const lane_cursor *message, lane_cursor in)
{
    for (int i = 1; i <= LOOK_AHEAD && lane_next(&in); i++)
        if (agree(message, &in)) return i;
    return -1;
}

static bool same_but_size(const lane_cursor *a, const lane_cursor *b)
{
    audit_entry other = *lane_entry(b);
    other.n = lane_entry(a)->n;
    other.width = lane_entry(a)->width;
    return entries_agree(lane_item(a), lane_entry(a), lane_item(b), &other);
}

/* a is what is expected of b. Lanes of the same length lack nothing. */
static fault_kind kind_of(const difference *d, bool same_length)
{
    if (!d->has_a || !d->has_b) return FAULT_MISSING;
    int a_in_b = comes_later(&d->a, d->b), b_in_a = comes_later(&d->b, d->a);
    if (!same_length && (a_in_b == 1 || b_in_a == 1)) return FAULT_MISSING;
    if (same_but_size(&d->a, &d->b)) return FAULT_SIZE;
    return a_in_b > 0 && b_in_a > 0 ? FAULT_ORDER : FAULT_KIND;
}

static const char *said(const lane_cursor *c, bool has, arena *a)
{
    return has ? entry_text(lane_item(c), lane_entry(c), a) : "no further message";
}

static const char *name_of(const difference *d)
{
    if (d->has_b) return lane_entry(&d->b)->name;
    return d->has_a ? lane_entry(&d->a)->name : "";
}

/* ---- faults that many groups share are named once */

static bool seen_before(audit_state *t, int lane, int a, int b)
{
    for (int i = 0; i < t->n_seen; i++)
        if (t->seen[i].lane == lane && t->seen[i].a == a && t->seen[i].b == b) {
            if (t->seen[i].fault >= 0) t->out->faults[t->seen[i].fault].times++;
            t->out->n_all_faults++;
            return true;
        }
    return false;
}

static void remember(audit_state *t, int lane, int a, int b)
{
    if (t->n_seen == t->seen_room) {
        int room = 2 * t->seen_room + 64;
        struct pair_seen *more = arena_take(t->a, sizeof *more * (size_t)room);
        if (t->n_seen) memcpy(more, t->seen, sizeof *more * (size_t)t->n_seen);
        t->seen = more;
        t->seen_room = room;
    }
    bool named = t->out->n_all_faults <= AUDIT_FAULTS_MAX;
    t->seen[t->n_seen].lane = lane;
    t->seen[t->n_seen].a = a;
    t->seen[t->n_seen].b = b;
    t->seen[t->n_seen++].fault = named ? t->out->n_faults - 1 : -1;
}

static const audit_trace *trace_of_rank(const audit_state *t, int64_t rank)
{
    return &t->classes[t->class_of[rank]].trace;
}

static int id_at(const audit_state *t, int64_t rank, int lane)
{
    return lane < 0 ? 0 : t->ids[t->class_of[rank]][lane];
}

/* Messages of a rank in a lane. */
static int64_t said_at(const audit_state *t, int64_t rank, int lane)
{
    return lane < 0 ? 0 : lane_count(t, t->class_of[rank], lane);
}

/* ---- collectives */

static const char *ranks_text(const int64_t *ranks, int64_t n, arena *a)
{
    textbuf t = text_init(a);
    for (int64_t i = 0; i < n; i++) {
        if (n > 10 && i == 8) {
            text_add(&t, " ... %" PRId64, ranks[n - 1]);
            break;
        }
        text_add(&t, "%s%" PRId64, i ? " " : "", ranks[i]);
    }
    return t.s;
}

static void name_collective(audit_state *t, int lane, int64_t like, int64_t odd)
{
    difference d = first_difference(trace_of_rank(t, like), lane, trace_of_rank(t, odd), lane);
    if (!d.has_a && !d.has_b) return;
    const group_table *g = &t->groups[t->book->lanes[lane].group];
    bool same_length = said_at(t, like, lane) == said_at(t, odd, lane);
    audit_fault *f = fault_add(t, kind_of(&d, same_length), odd, like, name_of(&d));
    if (!f) return;
    f->text = arena_text(
        t->a,
        "rank %" PRId64 " and rank %" PRId64
        " differ in group %s (ranks %s; stream %s) at its message %" PRId64
        " of the step: rank %" PRId64 " starts %s; expected, as on rank %" PRId64 ": %s",
        odd, like, comm_group_name(t->book->lanes[lane].group),
        ranks_text(group_at(g, odd), g->n, t->a), op_stream_names[t->book->lanes[lane].stream],
        d.at + 1, odd, said(&d.b, d.has_b, t->a), like, said(&d.a, d.has_a, t->a));
}

/* A member that says what most say, or the first where there is no majority. */
static int64_t majority(const audit_state *t, int lane, const int64_t *ranks, int64_t n)
{
    int64_t best = ranks[0], votes = 0;
    for (int64_t i = 0; i < n; i++) {
        if (votes == 0) best = ranks[i];
        votes += id_at(t, ranks[i], lane) == id_at(t, best, lane) ? 1 : -1;
    }
    return best;
}

static void match_collectives(audit_state *t, int lane)
{
    const group_table *g = &t->groups[t->book->lanes[lane].group];
    for (int64_t k = 0; k < g->n_groups; k++) {
        const int64_t *ranks = g->ranks + k * g->n;
        int64_t like = majority(t, lane, ranks, g->n);
        int id = id_at(t, like, lane);
        for (int64_t i = 0; i < g->n; i++) {
            int other = id_at(t, ranks[i], lane);
            if (other == id || seen_before(t, lane, id, other)) continue;
            int64_t before = t->out->n_all_faults;
            name_collective(t, lane, like, ranks[i]);
            if (t->out->n_all_faults > before) remember(t, lane, id, other);
        }
    }
}

static void outsiders(audit_state *t, int lane)
{
    comm_group group = t->book->lanes[lane].group;
    for (int64_t r = 0; r < t->s->lay.world; r++) {
        if (t->groups[group].group_of[r] >= 0 || !id_at(t, r, lane)) continue;
        lane_cursor c = lane_start(trace_of_rank(t, r), lane);
        lane_next(&c);
        audit_fault *f = fault_add(t, FAULT_KIND, r, r, lane_entry(&c)->name);
        if (f)
            f->text = arena_text(t->a, "rank %" PRId64 " is in no group %s, but starts %s there", r,
                                 comm_group_name(group), said(&c, true, t->a));
    }
}

/* ---- sends and receives */

int lane_opposite(const audit_state *t, int lane)
{
    audit_lane key = t->book->lanes[lane];
    int64_t n = t->groups[key.group].n;
    key.kind = key.kind == LANE_SEND ? LANE_RECV : LANE_SEND;
    key.step = (n - key.step) % n;
    key.stream = op_stream_opposite(key.stream);
    for (int i = 0; i < t->book->n_lanes; i++)
        if (lane_equal(&t->book->lanes[i], &key)) return i;
    return -1;
}

static void name_pair(audit_state *t, int lane, int64_t from, int64_t to)
{
    int opposite = lane_opposite(t, lane);
    bool sends = t->book->lanes[lane].kind == LANE_SEND;
    difference d = first_difference(trace_of_rank(t, from), lane, trace_of_rank(t, to), opposite);
    if (!d.has_a && !d.has_b) return;
    bool same_length = said_at(t, from, lane) == said_at(t, to, opposite);
    audit_fault *f = fault_add(t, kind_of(&d, same_length), from, to,
                               d.has_a ? lane_entry(&d.a)->name : lane_entry(&d.b)->name);
    if (!f) return;
    f->text = arena_text(t->a,
                         "message %" PRId64 " of the step from rank %" PRId64 " to rank %" PRId64
                         " with tag %" PRId64 ": rank %" PRId64 " starts %s; rank %" PRId64
                         " has for it %s",
                         d.at + 1, sends ? from : to, sends ? to : from, t->book->lanes[lane].tag,
                         from, said(&d.a, d.has_a, t->a), to, said(&d.b, d.has_b, t->a));
}

static void match_pairs(audit_state *t, int lane)
{
    const audit_lane *l = &t->book->lanes[lane];
    const group_table *g = &t->groups[l->group];
    int opposite = lane_opposite(t, lane);
    for (int64_t r = 0; r < t->s->lay.world; r++) {
        int id = id_at(t, r, lane);
        if (!id || g->group_of[r] < 0) continue;
        int64_t peer = group_partner(g, r, l->step);
        int other = id_at(t, peer, opposite);
        if (other == id || (other && l->kind == LANE_RECV)) continue; /* told by the sender */
        if (seen_before(t, lane, id, other)) continue;
        int64_t before = t->out->n_all_faults;
        name_pair(t, lane, r, peer);
        if (t->out->n_all_faults > before) remember(t, lane, id, other);
    }
}

void match_all(audit_state *t)
{
    for (int lane = 0; lane < t->book->n_lanes; lane++) {
        outsiders(t, lane);
        if (t->book->lanes[lane].kind == LANE_COLLECTIVE)
            match_collectives(t, lane);
        else
            match_pairs(t, lane);
    }
}
