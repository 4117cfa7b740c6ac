/* screen_price.c - a predicted step in a few lines: seconds, memory as a bar, time as a bar. */
#include "cli/screen_price.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen.h"
#include "plan/changes.h"

enum { SHOWN_MAX = 64 };

/* Parts below so much of the whole stand together. */
static const double SMALL = 0.02;

typedef struct part_words {
    const char *key, *word;
    char letter;
} part_words;

static const part_words memory_words[] = {
    {"weights", "weights", 'w'},
    {"weight_copies", "FP8 copies", 'f'},
    {"gradients", "gradients", 'g'},
    {"optimizer", "optimizer", 'o'},
    {"activations", "activations", 'a'},
    {"saved", "activations", 'a'},
    {"logits", "logits", 'l'},
    {"temporaries", "temporaries", 't'},
    {"optimizer_step", "optimizer's step", 's'},
    {"boundary", "pipeline buffers", 'p'},
    {"pipeline", "pipeline buffers", 'p'},
    {"unused", "allocator", 'h'},
    {"dummy_wgrads", "dummy gradients", 'd'},
    {"graphs", "CUDA graphs", 'c'},
    {"outside_graphs", "CUDA graphs", 'c'},
    {"outside_context", "CUDA and libraries", 'u'},
    {"outside_nccl", "NCCL", 'n'},
    {"outside_dispatcher", "dispatcher", 'b'},
    {NULL, NULL, 'x'},
};

static const part_words time_words[] = {
    {"products", "GEMM", 'G'},
    {"experts", "expert GEMM", 'X'},
    {"attention", "attention", 'A'},
    {"head and loss", "head and loss", 'H'},
    {"routing", "router", 'R'},
    {"elementwise", "norms", 'N'},
    {"quantising", "FP8 casts", 'F'},
    {"TP messages", "TP exposed", 'T'},
    {"CP messages", "CP exposed", 'C'},
    {"EP messages", "EP exposed", 'E'},
    {"PP messages", "PP exposed", 'P'},
    {"DP messages", "DP exposed", 'D'},
    {"host copies", "offload copies", 'K'},
    {"host", "kernel launches", 'L'},
    {"bubble", "pipeline bubble", 'B'},
    {"optimizer", "optimizer", 'O'},
    {"slowed", "slowed by transfers", 'S'},
    {NULL, NULL, 'x'},
};

static const part_words *words_of(const part_words *table, const char *key)
{
    while (table->key && !text_equal(table->key, key)) table++;
    return table;
}

/* The parts that are not small, and the rest as one: returns how many. */
static int gather(screen_part *out, const part_words *table, const char *const *keys,
                  const double *amounts, int n)
{
    double sum = 0, rest = 0;
    int used = 0;
    for (int i = 0; i < n; i++) sum += amounts[i];
    for (int i = 0; i < n; i++) {
        const part_words *w = words_of(table, keys[i]);
        if (!w->key || amounts[i] < SMALL * sum)
            rest += amounts[i];
        else
            out[used++] = (screen_part){w->word, amounts[i], w->letter};
    }
    if (rest > 0) out[used++] = (screen_part){"rest", rest, 'x'};
    return used;
}

/* "weights 5.3  gradients 10.7 GiB": out[i] in `unit`s of 10^-digits. */
static const char *parts_text(const screen_part *parts, int n, double unit, int digits,
                              const char *name, arena *a)
{
    double amounts[SHOWN_MAX] = {0};
    int64_t rounded[SHOWN_MAX];
    textbuf t = text_init(a);
    double least = unit * pow(10, -digits);
    for (int i = 0; i < n; i++) amounts[i] = parts[i].amount;
    screen_round(rounded, amounts, n, least);
    for (int i = 0; i < n; i++) {
        if (!rounded[i]) continue;
        text_add(&t, "%s%s %.*f", t.n ? "  " : "", parts[i].name, digits,
                 (double)rounded[i] * pow(10, -digits));
    }
    text_add(&t, " %s", name);
    return t.s;
}

const char *screen_device(bool cpu)
{
    return cpu ? "process" : "GPU";
}

const char *screen_devices(bool cpu, int64_t n, const char *name, arena *a)
{
    return cpu ? arena_text(a, "%lld process%s of %s", (long long)n, n > 1 ? "es" : "", name)
               : arena_text(a, "%s %s", text_grouped(a, n), name);
}

void screen_head(const setup *s, const hardware *hw, arena *a)
{
    bool named =
        text_equal(s->r.name, s->m.name) || text_equal(s->r.name, recipe_word(&s->r, K_MODEL));
    screen_title("%s%s%s, %s tokens, %s, global batch %s", s->r.name, named ? "" : ": ",
                 named ? "" : s->m.name, text_grouped(a, recipe_int(&s->r, K_SEQ)),
                 screen_devices(hw->arch == ARCH_CPU, recipe_int(&s->r, K_N_GPUS), hw->name, a),
                 text_grouped(a, recipe_int(&s->r, K_GBS)));
}

void screen_step(const price_answer *x, int64_t ranks, bool cpu, arena *a)
{
    const char *device = screen_device(cpu), *per = ranks > 1 ? "/" : "";
    const priced_band_answer *band = x->priced_band;
    double day = x->tokens_per_s_per_gpu * (double)ranks * 86400;
    if (ranks == 1) device = "";
    screen_line("STEP", "%s  %s tok/s%s%s  %s%s%s  MFU %.2g %%  %s tokens/day",
                band ? screen_band(a, x->step_s, band->band->low_s, band->band->high_s)
                     : screen_seconds(a, x->step_s),
                screen_number(a, x->tokens_per_s_per_gpu), per, device,
                screen_flops(a, x->tflops_per_gpu * 1e12), per, device, 100 * x->mfu_bf16,
                screen_count(a, day));
}

const char *screen_fits(arena *a, int64_t bytes, int64_t usable)
{
    bool fits = bytes <= usable;
    return arena_text(
        a, "%s, %s", screen_bytes(a, (double)bytes),
        screen_coloured(a, fits ? COLOUR_OK : COLOUR_ERROR, fits ? "fits" : "does not fit"));
}

void screen_memory(const peak_part *parts, int n, int64_t usable, int64_t rank, bool fullest,
                   arena *a)
{
    static const struct {
        double size;
        const char *name;
    } units[] = {{1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}, {1, "bytes"}};
    const char *keys[SHOWN_MAX] = {NULL};
    double amounts[SHOWN_MAX] = {0}, peak = 0;
    screen_part shown[SHOWN_MAX];
    assert(n > 0 && n <= SHOWN_MAX);
    for (int i = 0; i < n; i++) {
        keys[i] = parts[i].name;
        amounts[i] = (double)parts[i].bytes;
        peak += amounts[i];
    }
    int used = gather(shown, memory_words, keys, amounts, n), u = 0;
    while (u < 3 && peak < units[u].size) u++;
    double in_units = peak / units[u].size;
    int digits = u == 3 ? 0 : in_units < 10 ? 2 : in_units < 1000 ? 1 : 0;
    double least = units[u].size * pow(10, -digits);
    int64_t whole = llround(peak / least), room = llround((double)usable / least);
    bool fits = peak <= (double)usable, same = (double)usable < 1024 * units[u].size || u == 0;
    const char *number = arena_text(a, "%.*f", digits, (double)whole * pow(10, -digits));
    const char *left =
        same ? arena_text(a, "%.*f %s", digits, fabs((double)(room - whole)) * pow(10, -digits),
                          units[u].name)
             : screen_bytes(a, fabs((double)usable - peak));
    const char *of =
        same ? arena_text(a, "%.*f", digits, (double)room * pow(10, -digits))
             : arena_text(a, "%s of %s", units[u].name, screen_bytes(a, (double)usable));
    screen_line("MEMORY", "%s  %s%s%s %s, %s",
                screen_bar(a, shown, used, (double)usable, screen_bar_width()), number,
                same ? " of " : " ", of, same ? units[u].name : "usable",
                fits ? screen_coloured(a, COLOUR_OK, arena_text(a, "%s free", left))
                     : screen_coloured(a, COLOUR_ERROR, arena_text(a, "%s too much", left)));
    screen_line("", "%s%s", fullest ? "" : arena_text(a, "rank %lld: ", (long long)rank),
                parts_text(shown, used, units[u].size, digits, units[u].name, a));
}

void screen_host(const host_answer *h, int64_t activations, arena *a)
{
    bool enough = h->node_memory == FIELD_NONE || h->node <= h->node_memory;
    if (!h->node) return;
    textbuf t = text_init(a);
    if (h->state) text_add(&t, "optimizer %s a GPU, ", screen_bytes(a, (double)h->state));
    if (activations) text_add(&t, "activations %s a GPU, ", screen_bytes(a, (double)activations));
    text_add(&t, "%s a node", screen_bytes(a, (double)h->node));
    if (h->node_memory != FIELD_NONE)
        text_add(&t, " of %s%s", screen_bytes(a, (double)h->node_memory),
                 enough ? "" : screen_coloured(a, COLOUR_ERROR, ": MORE THAN IT HAS"));
    screen_line("HOST", "%s", t.s);
}

const char *screen_wall(const char *word, bool cpu)
{
    if (text_equal(word, "host")) return cpu ? "starts of operations" : "the host (launches)";
    return text_equal(word, "pipeline bubble") ? "pipeline bubble" : word;
}

const char *screen_evidence(arena *a, const char *evidence, bool cpu)
{
    static const char launches[] = "kernel launches";
    const char *at = cpu && evidence ? strstr(evidence, launches) : NULL;
    if (!at) return evidence;
    return arena_text(a, "%.*soperation starts%s", (int)(at - evidence), evidence,
                      at + sizeof launches - 1);
}

static int larger_first(const void *x, const void *y)
{
    double a = ((const screen_part *)x)->amount, b = ((const screen_part *)y)->amount;
    return (a < b) - (a > b);
}

void screen_time(const price_answer *x, bool cpu, arena *a)
{
    const char *keys[SHOWN_MAX] = {NULL};
    double amounts[SHOWN_MAX] = {0};
    screen_part shown[SHOWN_MAX];
    bool exposed = false;
    int n = x->n_parts;
    assert(n > 0 && n <= SHOWN_MAX);
    for (int i = 0; i < n; i++) {
        keys[i] = x->parts[i].name;
        amounts[i] = x->parts[i].seconds;
    }
    int used = gather(shown, time_words, keys, amounts, n);
    for (int i = 0; i < used; i++) {
        if (shown[i].letter == 'L' && cpu) shown[i].name = "operation starts";
        exposed |= strstr(shown[i].name, "exposed") != NULL;
    }
    bool rest = used && shown[used - 1].letter == 'x';
    qsort(shown, (size_t)(used - rest), sizeof *shown, larger_first);
    bool limit = x->fits; /* else it has to fit first */
    screen_line("TIME", "%s%s%s", screen_bar(a, shown, used, x->step_s, screen_bar_width()),
                limit ? "  bottleneck: " : "", limit ? screen_wall(x->wall, cpu) : "");
    screen_line("", "%s%s", parts_text(shown, used, x->step_s / 100, 0, "%", a),
                exposed ? "  (exposed: not hidden)" : "");
}

/* ---- `price` */

void screen_overflow(const price_answer *x)
{
    const routing_answer *r = x->routing;
    if (r && !r->buffers_suffice)
        screen_line(
            "BUFFERS",
            "routed buffers are planned for %.3g times the mean load, the worst layer has %.3g: "
            "--why names the moefold.moe_buffer_factor that would do",
            r->buffer_factor, r->worst_skew);
}

/* The step of a price whose routing is the other one. */
static void say_other(const price_answer *x, arena *a)
{
    if (!x->other) return;
    const other_routing_answer *o = x->other->natural ? x->other->natural : x->other->forced;
    if (!o) return;
    const char *fits = screen_fits(a, o->peak_bytes, x->usable_bytes);
    if (x->other->natural)
        screen_line(
            "ROUTING",
            "balance is forced; routed as it comes (%.3g times the mean load on the fullest "
            "EP rank): %s, %s",
            o->skew, screen_seconds(a, o->step_s), fits);
    else
        screen_line("ROUTING",
                    "%.3g times the mean load on the fullest EP rank; with forced balance: %s, %s",
                    x->routing ? x->routing->skew : 1.0, screen_seconds(a, o->step_s), fits);
}

/* What one change brings: the best that fit, then how many do not, or that gain nothing. */
static void say_changes(const price_answer *x, arena *a)
{
    enum { SHOWN = 2 };
    static const double LEAST = 0.0005; /* of a gain that is worth a line */
    int shown = 0, large = 0;
    const price_change *best_large = NULL;
    for (int i = 0; i < x->n_changes; i++) {
        const price_change *c = &x->changes[i];
        bool counts = c->gain > LEAST || !x->fits;
        if (!c->fits && c->gain > LEAST && !large++) best_large = c;
        if (!c->fits || !counts || shown == SHOWN) continue;
        shown++;
        screen_line(
            shown > 1 ? ""
            : x->fits ? "GAIN"
                      : "REPAIR",
            "%s speed: %s, %s  %s", screen_coloured(a, COLOUR_WARNING, screen_percent(a, c->gain)),
            screen_seconds(a, c->step_s), screen_fits(a, c->peak_bytes, x->usable_bytes), c->words);
    }
    if (!shown)
        screen_line(x->fits ? "GAIN" : "REPAIR", "no change of one knob that fits %s",
                    x->fits ? "is faster" : "was found; moefold check ... --fix looks for several");
    if (best_large && x->fits)
        screen_line("TOO BIG", "%d faster change%s %s not fit, such as %s with %s: %s", large,
                    large > 1 ? "s" : "", large > 1 ? "do" : "does",
                    screen_percent(a, best_large->gain),
                    screen_bytes(a, (double)best_large->peak_bytes), best_large->words);
}

void screen_rules(const violation_answer *list, int n, const char *kind, arena *a)
{
    for (int i = 0; i < n; i++)
        if (text_equal(list[i].severity, kind))
            screen_line(text_equal(kind, "error") ? "BROKEN" : "WARNING", "%s: %s",
                        screen_coloured(a,
                                        text_equal(kind, "error") ? COLOUR_ERROR : COLOUR_WARNING,
                                        list[i].rule),
                        list[i].message);
}

void screen_trust(const char *estimate, const priced_band_answer *band, const char *name)
{
    if (estimate) screen_line("TRUST", "%s", estimate);
    if (band && !band->supported)
        screen_line("TRUST",
                    "no published run on %s has all of these features: measure before you "
                    "rely on the step",
                    name);
}

void screen_of_price(const price_answer *x, const char *estimate, int64_t ranks, bool cpu, arena *a)
{
    const price_memory_answer *m = x->memory;
    int64_t held = 0;
    for (int i = 0; i < m->n_peak_parts; i++) held += m->peak_parts[i].bytes;
    screen_rules(x->violations, x->n_violations, "error", a);
    screen_step(x, ranks, cpu, a);
    screen_memory(m->peak_parts, m->n_peak_parts, x->usable_bytes, m->rank,
                  m->rank == x->fullest_rank, a);
    if (held != x->peak_bytes)
        screen_line("", "rank %lld is the fullest: %s", (long long)x->fullest_rank,
                    screen_fits(a, x->peak_bytes, x->usable_bytes));
    screen_host(m->host, m->on_host, a);
    screen_time(x, cpu, a);
    say_other(x, a);
    screen_overflow(x);
    say_changes(x, a);
    for (int i = 0; i < x->n_wall_repairs && i < 1; i++)
        screen_line("BUBBLE", "%s (%s): %s", x->wall_repairs[i].what,
                    screen_percent(a, x->wall_repairs[i].change->gain),
                    x->wall_repairs[i].change->words);
    screen_trust(estimate, x->priced_band, x->gpu);
}
