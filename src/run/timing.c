/* timing.c - predicted beside measured, and for which machine. */
#include "run/timing.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

/* ---- the machine */

enum { RANKS_LOOKED_FOR = 64 };

/* In the folders that `moefold bench` writes to, else where all descriptions are. */
static status read_named(hardware *h, const char *name, arena *a, error *err)
{
    const char *home = getenv("HOME");
    const char *here = arena_text(a, "./hardware/%s.yaml", name);
    const char *own = arena_text(a, "%s/.config/moefold/hardware/%s.yaml", home ? home : "", name);
    return hardware_read(h, file_exists(here) ? here : file_exists(own) ? own : name, a, err);
}

/* One that is there and wrong is an error; one that is not there is none. */
static bool is_there(const char *name, arena *a)
{
    hardware ignored_h;
    error ignored;
    const char *home = getenv("HOME");
    if (file_exists(arena_text(a, "./hardware/%s.yaml", name))) return true;
    if (home && file_exists(arena_text(a, "%s/.config/moefold/hardware/%s.yaml", home, name)))
        return true;
    return !hardware_read(&ignored_h, name, a, &ignored);
}

/* NULL: nothing was measured. */
static const char *measured_name(int64_t ranks, int64_t *found, arena *a)
{
    int64_t n = ranks < RANKS_LOOKED_FOR ? ranks : RANKS_LOOKED_FOR;
    for (; n > 1; n--) {
        const char *name = arena_text(a, "local-%d", (int)n);
        *found = n;
        if (is_there(name, a)) return name;
    }
    *found = 1;
    return is_there("local", a) ? "local" : NULL;
}

status timing_local(hardware *h, int64_t *ranks, arena *a, error *err)
{
    int64_t found, wanted = *ranks > 0 ? *ranks : (int64_t)sysconf(_SC_NPROCESSORS_ONLN);
    const char *name = measured_name(wanted, &found, a);
    if (!name)
        return error_set(err, ERR_INPUT,
                         "this machine was not measured; repair: run `moefold bench` (about a "
                         "minute), or use cluster.gpu=cpu (defaults, not measured)");
    if (*ranks < 1) *ranks = found;
    return read_named(h, name, a, err);
}

bool timing_measured(const setup *s, arena *a)
{
    int64_t found;
    const gpu *g = recipe_gpu(&s->r);
    if (!g || g->arch != ARCH_CPU) return false;
    return g->path || measured_name(s->lay.world, &found, a);
}

static status find_machine(hardware *h, const setup *s, arena *a, error *err)
{
    const char *gpu_name = recipe_word(&s->r, K_GPU);
    int64_t found = s->lay.world;
    if (!text_equal(gpu_name, "cpu")) {
        bool local = text_equal(gpu_name, "local");
        status st = local ? timing_local(h, &found, a, err) : hardware_read(h, gpu_name, a, err);
        return st ? error_prefix(err, st, "cluster.gpu=%s", gpu_name) : OK;
    }
    const char *name = measured_name(s->lay.world, &found, a);
    return read_named(h, name ? name : "cpu", a, err);
}

status timing_machine(hardware *h, const setup *s, arena *a, error *err)
{
    status st = find_machine(h, s, a, err);
    if (!st) hardware_leave(h, recipe_real(&s->r, K_HEADROOM));
    return st;
}

/* ---- the table */

/* What a message costs the step: what shows of it, and the cores that move the rest. Waiting for
 * another stage is measured as waiting for its message. */
static double predicted_of(const price *p, const hardware *hw, cost_kind k)
{
    if (k < COST_TP || k > COST_DP) return p->time[k];
    double hidden = p->time[k] - p->exposed[k];
    return p->exposed[k] + hw->message_share * (hidden > 0 ? hidden : 0) +
           (k == COST_PP ? p->bubble : 0);
}

int timing_rows(timing_row *rows, const timing *t, const price *p, const hardware *hw)
{
    int n = 0;
    double each = t->steps > 0 ? 1 / t->steps : 0, left = t->step;
    for (int k = 0; k < COST_KINDS; k++) {
        timing_row r = {cost_kind_title((cost_kind)k), predicted_of(p, hw, (cost_kind)k),
                        t->seconds[k] * each};
        left -= t->seconds[k];
        if (r.predicted > 0 || r.measured > 0) rows[n++] = r;
    }
    rows[n++] = (timing_row){"optimizer and the rest", p->optimizer, left * each};
    rows[n++] = (timing_row){"step", p->step_s, t->step * each};
    return n;
}

timing timing_of_slowest(const timing *mine, const price *p, const setup *s, comm *c, arena *a)
{
    if (!c || comm_size(c) == 1) return *mine;
    timing *all = ARENA_ARRAY(a, timing, comm_size(c));
    comm_collect(c, GROUP_WORLD, mine, sizeof *mine, all);
    return all[layout_stage_rank(&s->lay, p->slowest)];
}
