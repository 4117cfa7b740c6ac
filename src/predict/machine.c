/* machine.c - the hardware file of what a recipe runs on. */
#include "predict/machine.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "predict/cost.h"

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

status machine_local(hardware *h, int64_t *ranks, arena *a, error *err)
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

bool machine_measured(const setup *s, arena *a)
{
    int64_t found;
    const gpu *g = s->j.machine;
    if (!g || g->arch != ARCH_CPU) return false;
    return g->path || measured_name(s->lay.world, &found, a);
}

/* "H200" -> "h200-measured" */
static const char *measured_gpu(const gpu *g, arena *a)
{
    char *name = arena_text(a, "%s-measured", g->name);
    for (char *c = name; *c; c++) *c = (char)tolower((unsigned char)*c);
    return name;
}

/* A GPU that was measured, of the same architecture; NULL: none. */
static const char *measured_sibling(const gpu *g, arena *a)
{
    const gpu *other;
    for (int i = 0; (other = gpu_at(i)); i++) {
        const char *name = measured_gpu(other, a);
        if (other->arch == g->arch && is_there(name, a)) return name;
    }
    return NULL;
}

/* What differs between GPUs of one architecture is the described one's; parts of peaks and the host
 * are the measured one's. */
static hardware estimated(const hardware *described, const hardware *sibling)
{
    hardware h = *sibling;
    h.name = described->name;
    h.path = described->path;
    h.measured = NULL;
    memcpy(h.peak, described->peak, sizeof h.peak);
    h.memory = described->memory;
    h.usable = described->usable;
    h.memory_bandwidth = described->memory_bandwidth;
    h.gpus_per_node = described->gpus_per_node;
    h.nvlink_domain = described->nvlink_domain;
    h.node = described->node;
    h.domain = described->domain;
    h.across = described->across;
    h.host_bandwidth = described->host_bandwidth;
    h.host_both = described->host_both;
    return h;
}

static status read_own(hardware *h, const gpu *g, arena *a, error *err)
{
    hardware other;
    const char *name = measured_gpu(g, a);
    if (is_there(name, a)) return read_named(h, name, a, err);
    status st = hardware_read(h, g->name, a, err);
    const char *sibling = st ? NULL : measured_sibling(g, a);
    if (!sibling) return st;
    st = read_named(&other, sibling, a, err);
    if (!st) *h = estimated(h, &other);
    return st;
}

status machine_gpu(hardware *h, const char *name, bool ours, arena *a, error *err)
{
    const gpu *g = gpu_find(name);
    bool own = ours && g && g->arch != ARCH_CPU;
    status st = own ? read_own(h, g, a, err) : hardware_read(h, name, a, err);
    const char *unknown = st ? NULL : cost_unknown_kind(h);
    if (!unknown) return st;
    return error_set(err, ERR_INPUT,
                     "%s: kinds: %.40s is not a kind of operation; repair: use a name that "
                     "`moefold show --ops` prints, such as NORM",
                     h->path, unknown);
}

static status read_machine(hardware *h, const setup *s, arena *a, error *err)
{
    const char *gpu_name = s->j.gpu;
    int64_t found = s->lay.world;
    if (!text_equal(gpu_name, "cpu")) {
        bool local = text_equal(gpu_name, "local");
        bool ours = job_is_ours(&s->j);
        status st =
            local ? machine_local(h, &found, a, err) : machine_gpu(h, gpu_name, ours, a, err);
        return st ? error_prefix(err, st, "cluster.gpu=%s", gpu_name) : OK;
    }
    const char *name = measured_name(s->lay.world, &found, a);
    return read_named(h, name ? name : "cpu", a, err);
}

status machine_of_setup(hardware *h, const setup *s, arena *a, error *err)
{
    TRY(read_machine(h, s, a, err));
    hardware_leave(h, s->j.headroom);
    machine_limit(h, &s->j);
    return OK;
}

void machine_limit(hardware *h, const job *j)
{
    int64_t most = job_has(j, K_MEMORY_LIMIT) ? j->memory_limit : h->usable;
    if (most < h->usable) h->usable = most;
}
