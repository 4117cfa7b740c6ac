/* answer.c - the tables of what commands answer, and what they say of a setup. */
#include "answer/answer.h"

#include <string.h>

#include "plan/changes.h"
#include "predict/not_priced.h"

/* ---- tables */

/* clang-format off */
#define KIND(member) _Generic((((R *)0)->member), bool: FIELD_BOOL, signed char: FIELD_MAYBE, \
    int: FIELD_INT, int64_t: FIELD_INT64, double: FIELD_REAL, double *: FIELD_PAIR, \
    const char *: FIELD_TEXT, \
    const char *const *: FIELD_TEXTS, const char *const *const *: FIELD_TEXT_LISTS, \
    json_t *: FIELD_JSON)
#define ROW(empty, said, member, is, in, ...) \
    {.key = said, .kind = is, .need = empty, .unit = in, .words = "" __VA_ARGS__, \
     .at = offsetof(R, member)
#define PLAIN(empty, said, member, in, ...) \
    ROW(empty, said, member, KIND(member), in, __VA_ARGS__)},
#define ONE(empty, said, member, is, table, ...) \
    ROW(empty, said, member, is, "", __VA_ARGS__), .of = table##_fields},
#define MANY(empty, member, is, table, ...) ROW(empty, #member, member, is, "", __VA_ARGS__), \
    .of = table##_fields, .size = sizeof *((R *)0)->member, .n_at = offsetof(R, n_##member), \
    .n_size = sizeof ((R *)0)->n_##member},

#define ANSWER(name) SECTION(name, "")
#define SECTION(name, title, ...) \
    const field *name##_fields(void) { typedef name R; static const field rows[] = { \
        {.key = #name, .unit = title, .words = "" __VA_ARGS__},
#define END {.key = NULL}}; return rows; }
#define OR_NULL(type, ...) type##_(NULLABLE, __VA_ARGS__)
#define OR_NONE(type, ...) type##_(OPTIONAL, __VA_ARGS__)

#define BOOL(...)       BOOL_(ALWAYS, __VA_ARGS__)
#define INT(...)        INT_(ALWAYS, __VA_ARGS__)
#define BYTES(...)      BYTES_(ALWAYS, __VA_ARGS__)
#define REAL(...)       REAL_(ALWAYS, __VA_ARGS__)
#define SECONDS(...)    SECONDS_(ALWAYS, __VA_ARGS__)
#define TEXT(...)       TEXT_(ALWAYS, __VA_ARGS__)
#define TEXTS(...)      TEXTS_(ALWAYS, __VA_ARGS__)
#define TEXT_LISTS(...) BOOL_(ALWAYS, __VA_ARGS__)
#define PAIR(...)       BOOL_(ALWAYS, __VA_ARGS__)
#define REALS(member, ...) NUMBERS(member, FIELD_REALS, __VA_ARGS__)
#define INTS(member, ...)  NUMBERS(member, FIELD_INTS, __VA_ARGS__)
#define NUMBERS(member, is, ...) ROW(ALWAYS, #member, member, is, "", __VA_ARGS__), \
    .n_at = offsetof(R, n_##member), .n_size = sizeof ((R *)0)->n_##member},
#define RAW(...)        RAW_(ALWAYS, __VA_ARGS__)
#define PART(...)       PART_(ALWAYS, __VA_ARGS__)
#define JOIN(...)       JOIN_(ALWAYS, __VA_ARGS__)
#define POINTERS(...)   POINTERS_(ALWAYS, __VA_ARGS__)
#define LIST(...)       LIST_(ALWAYS, __VA_ARGS__)
#define MAP(...)        MAP_(ALWAYS, __VA_ARGS__)
#define SPREAD(...)     SPREAD_(ALWAYS, __VA_ARGS__)
#define INT_AS(said, member, ...) PLAIN(ALWAYS, said, member, "", __VA_ARGS__)

#define BOOL_(empty, member, ...)           PLAIN(empty, #member, member, "", __VA_ARGS__)
#define MAYBE_   BOOL_
#define INT_     BOOL_
#define REAL_    BOOL_
#define TEXT_    BOOL_
#define TEXTS_   BOOL_
#define BYTES_(empty, member, ...)          PLAIN(empty, #member, member, "bytes", __VA_ARGS__)
#define SECONDS_(empty, member, ...)        PLAIN(empty, #member, member, "s", __VA_ARGS__)
#define RAW_(empty, member, ...)            PLAIN(empty, #member, member, __VA_ARGS__)
#define RAW_AS_                             PLAIN
#define PART_(empty, member, table, ...) \
    ONE(empty, #member, member, FIELD_PART, table, __VA_ARGS__)
#define PART_AS_(empty, said, member, table, ...) \
    ONE(empty, said, member, FIELD_PART, table, __VA_ARGS__)
#define JOIN_(empty, member, table)         ONE(empty, #member, member, FIELD_JOINED, table)
#define POINTERS_(empty, member, table, ...) \
    MANY(empty, member, FIELD_POINTERS, table, __VA_ARGS__)
#define LIST_(empty, member, table, ...)    MANY(empty, member, FIELD_LIST, table, __VA_ARGS__)
#define MAP_(empty, member, table, ...)     MANY(empty, member, FIELD_MAP, table, __VA_ARGS__)
#define SPREAD_(empty, member, table, ...)  MANY(empty, member, FIELD_JOINED, table, __VA_ARGS__)
#include "answer/answer.def"

#define DESCRIBED(name) \
    const field *name##_fields(void) { typedef name R; static const field rows[] = { \
        {.key = #name, .unit = "", .words = ""},
#define FIELD(said, member, ...) PLAIN(ALWAYS, #said, member, "", __VA_ARGS__)
#define END {.key = NULL}}; return rows; }
#include "answer/described.def"
/* clang-format on */

/* ---- schema and documentation */

/* Sections of docs/JSON.md, and what prints them; NULL: they are parts of others. */
static const struct section {
    const char *command;
    const field *(*table)(void);
    bool list; /* it prints a list of them */
} sections[] = {
    {"check", check_answer_fields, false},       {NULL, violation_answer_fields, false},
    {NULL, model_answer_fields, false},          {NULL, layout_answer_fields, false},
    {NULL, rank_memory_answer_fields, false},    {"show", show_answer_fields, false},
    {"knobs", knob_answer_fields, true},         {"price", price_answer_fields, false},
    {"price", no_price_answer_fields, false},    {"plan", planned_answer_fields, false},
    {"plan", no_plan_answer_fields, false},      {NULL, row_answer_fields, false},
    {"diff", diff_answer_fields, false},         {"diff", profiles_answer_fields, false},
    {"trace", traces_answer_fields, false},      {"profile", profile_answer_fields, false},
    {"tune", tune_answer_fields, false},         {"convert", convert_answer_fields, false},
    {"eval", eval_answer_fields, false},         {"parity", parity_answer_fields, false},
    {"train", start_event_fields, false},        {"train", iteration_event_fields, false},
    {"train", validation_event_fields, false},   {"train", checkpoint_event_fields, false},
    {"train", products_event_fields, false},     {"train", memory_event_fields, false},
    {"train", host_event_fields, false},         {"train", touched_event_fields, false},
    {NULL, summary_answer_fields, false},        {"bench", bench_answer_fields, false},
    {"bench", bench_ranks_answer_fields, false}, {"bench", bench_recipe_answer_fields, false},
    {NULL, page_answer_fields, false},           {NULL, page_run_answer_fields, false},
    {NULL, page_tune_answer_fields, false},      {NULL, page_schedule_answer_fields, false}};

/* Lines of at most WIDTH columns, and an empty one. */
static void add_prose(textbuf *out, const char *words)
{
    enum { WIDTH = 120 };
    size_t column = 0;
    for (const char *p = words; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        bool fits = column + 1 + n <= WIDTH;
        text_add(out, "%s%.*s", !column ? "" : fits ? " " : "\n", (int)n, p);
        column = column && fits ? column + 1 + n : n;
        p += n;
    }
    text_add(out, "\n\n");
}

void answer_document(textbuf *out)
{
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        const field *table = sections[i].table();
        text_add(out, "%s## %s\n\n", i ? "\n" : "", table->unit);
        if (*table->words) add_prose(out, table->words);
        text_add(out, "| key | type | meaning |\n|---|---|---|\n");
        fields_rows(out, table);
    }
}

json_t *answer_schema(void)
{
    json_t *defs = json_object(), *commands = json_object();
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        const struct section *x = &sections[i];
        json_t *ref = fields_reference(defs, x->table());
        if (x->list) ref = json_pack("{s:s, s:o}", "type", "array", "items", ref);
        if (x->command && !json_object_get(commands, x->command))
            json_object_set_new(commands, x->command, json_pack("{s:[]}", "anyOf"));
        json_t *one = x->command ? json_object_get(commands, x->command) : NULL;
        json_array_append_new(json_object_get(one, "anyOf"), ref);
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "$schema",
                     "https://json-schema.org/draft/2020-12/schema", "title",
                     "What `moefold COMMAND --json` prints: the schema of each of `commands`",
                     "commands", commands, "$defs", defs);
}

/* ---- of a setup */

const char *const *answer_texts(const char *const *list, int n, arena *a)
{
    const char **out = ARENA_ARRAY(a, const char *, n + 1);
    for (int i = 0; i < n; i++) out[i] = list[i];
    return out;
}

json_t *answer_value(value v)
{
    switch (v.kind) {
    case V_NULL:
        return json_null();
    case V_BOOL:
        return json_boolean(v.flag);
    case V_INT:
        return json_integer(v.whole);
    case V_FLOAT:
        return json_real(v.real);
    case V_TEXT:
        return json_string(v.text);
    case V_LIST: {
        json_t *list = json_array();
        for (int i = 0; i < v.list.n; i++)
            json_array_append_new(list, answer_value(v.list.items[i]));
        return list;
    }
    }
    return json_null();
}

const violation_answer *answer_violations(int *n, const violations *found, arena *a)
{
    violation_answer *list = ARENA_ARRAY(a, violation_answer, *n = found->n);
    for (int i = 0; i < found->n; i++) {
        const violation *v = &found->list[i];
        const char *const **others = ARENA_ARRAY(a, const char *const *, REPAIRS_MAX + 1);
        const repair_answer **prices = ARENA_ARRAY(a, const repair_answer *, v->n_repairs);
        for (int k = 1; k < v->n_repairs; k++) others[k - 1] = violation_words(v, k, a);
        for (int k = 0; k < v->n_repairs; k++) {
            const repair_price *p = &v->prices[k];
            repair_answer *x = p->valid ? ARENA_NEW(a, repair_answer) : NULL;
            prices[k] = x;
            if (!x) continue;
            *x = (repair_answer){p->peak_bytes, p->fits, NAN, NAN, NAN};
            if (p->priced)
                *x = (repair_answer){p->peak_bytes, p->fits, p->gain, p->step_s, p->before_s};
        }
        list[i] = (violation_answer){.rule = v->rule->id,
                                     .severity = severity_name(v->rule->severity),
                                     .message = v->message,
                                     .repair = v->n_repairs ? violation_words(v, 0, a) : NULL,
                                     .alternatives = others,
                                     .repair_prices = prices,
                                     .n_repair_prices = v->n_repairs};
    }
    return list;
}

const fit_answer *answer_fit(const fit *f, arena *a)
{
    fit_answer *x = ARENA_NEW(a, fit_answer);
    *x = f->why_not ? (fit_answer){MAYBE_UNKNOWN, FIELD_NONE, FIELD_NONE, FIELD_NONE, f->why_not}
                    : (fit_answer){f->fits, f->peak_bytes, f->usable_bytes, f->fullest, NULL};
    return x;
}

const model_answer *answer_model(const setup *s, arena *a)
{
    param_totals totals = param_count(&s->params);
    int64_t seq = recipe_int(&s->r, K_SEQ);
    model_answer *x = ARENA_NEW(a, model_answer);
    *x = (model_answer){s->m.name,     s->m.family, totals.total,
                        totals.active, seq,         model_flops_per_token(&s->m, seq)};
    return x;
}

/* {kind: [[rank]]}; `ranks` has room for all. Nothing is taken of an arena, which may end the call
 * (base/caller.h). */
static json_t *groups_of(const setup *s, grid g, int64_t *ranks)
{
    json_t *grids = json_object();
    int n_kinds;
    const group_kind *kinds = group_kinds(&n_kinds);
    for (int k = 0; k < n_kinds; k++) {
        if (kinds[k].grid != g) continue;
        int64_t size = group_size(&s->lay, &kinds[k]), count = group_count(&s->lay, &kinds[k]);
        json_t *groups = json_array();
        for (int64_t i = 0; i < count; i++) {
            group_ranks(&s->lay, &kinds[k], i, ranks);
            json_t *list = json_array();
            for (int64_t j = 0; j < size; j++) json_array_append_new(list, json_integer(ranks[j]));
            json_array_append_new(groups, list);
        }
        json_object_set_new(grids, kinds[k].name, groups);
    }
    return grids;
}

static const placed_answer *placed_of(const setup *s, arena *a)
{
    placed_answer *x = ARENA_NEW(a, placed_answer);
    const group_kind *kinds = group_kinds(&x->n_reach);
    reach_answer *reach = ARENA_ARRAY(a, reach_answer, x->n_reach);
    for (int k = 0; k < x->n_reach; k++) {
        group_reach r = group_reach_of(&s->lay, &kinds[k]);
        reach[k] = (reach_answer){.grid = kinds[k].grid == GRID_DENSE ? "dense" : "expert",
                                  .group = kinds[k].name,
                                  .ranks = group_size(&s->lay, &kinds[k]),
                                  .groups = group_count(&s->lay, &kinds[k]),
                                  .nodes = r.nodes,
                                  .nvlink_domains = r.domains};
    }
    x->reach = reach;
    x->stages = s->pipe.why_not ? NULL : pipeline_text(a, &s->pipe);
    return x;
}

const layout_answer *answer_layout(const setup *s, arena *a)
{
    const job *j = &s->j;
    layout_answer *x = ARENA_NEW(a, layout_answer);
    *x = (layout_answer){.world = j->n_gpus,
                         .tp = j->tp,
                         .cp = j->cp,
                         .ep = j->ep,
                         .etp = j->etp,
                         .pp = j->pp,
                         .vpp = s->pipe.vpp,
                         .dp = FIELD_NONE,
                         .edp = FIELD_NONE};
    if (!s->possible) return x;
    groups_answer *groups = ARENA_NEW(a, groups_answer);
    int64_t *ranks = ARENA_ARRAY(a, int64_t, s->lay.world);
    x->dp = s->lay.dp;
    x->edp = s->lay.edp;
    x->placed = placed_of(s, a);
    x->groups = groups;
    *groups = (groups_answer){groups_of(s, GRID_DENSE, ranks), groups_of(s, GRID_EXPERT, ranks)};
    return x;
}

const bytes_answer *answer_regions(int *n, const int64_t *bytes, arena *a)
{
    bytes_answer *list = ARENA_ARRAY(a, bytes_answer, REGION_COUNT);
    *n = 0;
    for (int i = 0; i < REGION_COUNT; i++)
        if (region_is_shown(i, bytes[i]))
            list[(*n)++] = (bytes_answer){region_name((region)i), bytes[i]};
    return list;
}

const peak_part *answer_peak(int *n, const reported *r, const int64_t *arena_parts, arena *a)
{
    peak_part *list = ARENA_ARRAY(a, peak_part, PEAK_PARTS);
    *n = peak_parts(list, r, arena_parts, a);
    return list;
}

const reported_answer *answer_reported(const reported *r, bool megatron, arena *a)
{
    reported_answer *x = ARENA_NEW(a, reported_answer);
    bytes_answer *parts = ARENA_ARRAY(a, bytes_answer, OUTSIDE_PARTS);
    for (int i = 0; i < OUTSIDE_PARTS; i++)
        parts[i] = (bytes_answer){outside_name((outside_part)i), r->outside_part[i]};
    allocated_answer *outside = ARENA_NEW(a, allocated_answer);
    *outside = (allocated_answer){r->outside, parts, OUTSIDE_PARTS};
    x->outside = outside;
    if (!megatron) return x;
    parts = ARENA_ARRAY(a, bytes_answer, ALLOCATED_PARTS);
    for (int i = 0; i < ALLOCATED_PARTS; i++)
        parts[i] = (bytes_answer){allocated_name((allocated_part)i), r->part[i]};
    allocated_answer *allocated = ARENA_NEW(a, allocated_answer);
    *allocated = (allocated_answer){r->allocated, parts, ALLOCATED_PARTS};
    unused_answer *held = ARENA_NEW(a, unused_answer);
    *held = (unused_answer){r->allocated, r->reserved - r->allocated};
    reserved_answer *reserved = ARENA_NEW(a, reserved_answer);
    int64_t *band = ARENA_ARRAY(a, int64_t, 2);
    band[0] = r->reserved_low;
    band[1] = r->reserved_high;
    *reserved = (reserved_answer){r->reserved, held, band, 2};
    x->allocated = allocated;
    x->reserved = reserved;
    return x;
}

const rank_memory_answer *answer_memory(const setup *s, int64_t pp_rank, const fit *f, arena *a)
{
    static const char *const kinds[] = {"dense", "expert", "embedding"};
    state_bytes b;
    if (!s->possible || s->pipe.why_not) return NULL;
    state_of_stage(&b, s, pp_rank);
    state_answer *by_kind = ARENA_ARRAY(a, state_answer, 3);
    for (int k = 0; k < 3; k++)
        by_kind[k] = (state_answer){kinds[k], b.weights[k], b.gradients[k], b.optimizer[k]};
    rank_memory_answer *x = ARENA_NEW(a, rank_memory_answer);
    bool known = f && !f->why_not;
    *x = (rank_memory_answer){
        .rank = layout_stage_rank(&s->lay, pp_rank),
        .weights = state_weights(&b),
        .gradients = state_gradients(&b),
        .optimizer = state_optimizer(&b),
        .total = state_total(&b),
        .padding = b.padding_weights + b.padding_gradients + b.padding_optimizer,
        .buffers = b.buffers,
        .host = b.host,
        .by_kind = by_kind,
        .n_by_kind = 3,
        .arena_bytes = known ? f->arena_bytes : FIELD_NONE,
        .reported = known ? answer_reported(&f->memory, f->megatron, a) : NULL};
    return x;
}

int64_t answer_stage(const setup *s, const fit *f)
{
    state_bytes b;
    return f->why_not ? setup_fullest(s, &b) : rank_coordinates(&s->lay, f->fullest).pp;
}
