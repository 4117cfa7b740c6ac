/* fuzz_checkpoint.c - a checkpoint of which one file is the input.
 *
 * The first byte picks the file: metadata.json or a tensor file, each as it is or with the
 * checksums made right (else they would end nearly every attempt at once), or the text file.
 *
 * I1  A load that succeeds without new checksums gives what was saved, bit for bit.
 * I2  A load never writes outside the weights.
 * I3  Counters that were loaded can be counted on from: none is negative or near the end of 64
 *     bits, and no more steps were skipped or made than there were. */
#include "fuzz/mutate.h"

#include <ftw.h>
#include <jansson.h>
#include <unistd.h>

#include "base/file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/meta.h"
#include "train/checkpoint/tensor_file.h"

enum { META, META_SEALED, TENSORS, TENSORS_SEALED, LATEST, N_KINDS };

static const char model_of_it[] =
    "model.num_layers=1 model.num_attention_heads=2 model.num_query_groups=1 model.kv_channels=4 "
    "model.vocab_size=4 model.num_moe_experts=2 model.moe_router_topk=1 model.hidden_size=4 "
    "model.moe_ffn_hidden_size=2 model.moe_router_enable_expert_bias=true "
    "model.moe_router_score_function=sigmoid";

static struct {
    char folder[64];
    arena *a;
    setup s;
    weight_list w;
    checkpoint c;  /* arrays that are loaded into, each with room behind it that stays zero */
    float *saved;  /* the weights as they were saved */
    char *good[2]; /* metadata.json and tensor file */
    size_t n_good[2];
} fixed;

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

static void clean_up(void)
{
    (void)nftw(fixed.folder, remove_one, 4, FTW_DEPTH | FTW_PHYS);
}

static const char *path_of(int file)
{
    static char path[160];
    static const char *const names[] = {"iter_0000001/metadata.json",
                                        "iter_0000001/weights-00000-of-00001.safetensors",
                                        "latest_checkpointed_iteration.txt"};
    snprintf(path, sizeof path, "%s/%s", fixed.folder, names[file]);
    return path;
}

static void put_file(int file, const void *data, size_t n)
{
    FILE *f = fopen(path_of(file), "wb");
    MUST(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

/* ---- the good one */

static void make_model(void)
{
    recipe *r = ARENA_NEW(fixed.a, recipe);
    error err = {0};
    recipe_init(r, fixed.a, "fuzz");
    for (const char *p = model_of_it; *p;) {
        size_t n = strcspn(p, " ");
        MUST(recipe_override(r, arena_copy(fixed.a, p, n), "fuzz", &err) == OK);
        p += n + strspn(p + n, " ");
    }
    MUST(setup_init(&fixed.s, r, fixed.a, &err) == OK);
    weight_list_init(&fixed.w, &fixed.s, fixed.a);
}

static void save_good(void)
{
    error err = {0};
    int64_t n = fixed.w.elements;
    fixed.saved = ARENA_ARRAY(fixed.a, float, n);
    for (int64_t i = 0; i < n; i++) fixed.saved[i] = (float)i;
    fixed.c = (checkpoint){.s = &fixed.s, .w = &fixed.w, .weights = fixed.saved};
    fixed.c.state.iteration = 1;
    MUST(checkpoint_save(&fixed.c, fixed.folder, 0, &err) == OK);
    fixed.c.weights = ARENA_ARRAY(fixed.a, float, n + 64);
    for (int i = 0; i < 2; i++)
        MUST(file_read(fixed.a, path_of(i), 1 << 20, &fixed.good[i], &fixed.n_good[i], &err) == OK);
}

static void prepare(void)
{
    const char *above = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    if (fixed.a) return;
    fixed.a = arena_create();
    snprintf(fixed.folder, sizeof fixed.folder, "%s/moefold-fuzz-XXXXXX", above);
    MUST(mkdtemp(fixed.folder));
    atexit(clean_up);
    make_model();
    save_good();
}

/* ---- checksums made right */

static void put_sealed(json_t *root)
{
    checkpoint_meta_seal(root);
    char *text = json_dumps(root, 0);
    if (text) put_file(0, text, strlen(text));
    free(text);
}

static void seal_meta(const uint8_t *data, size_t n)
{
    json_t *root = json_loadb((const char *)data, n, 0, NULL);
    if (json_is_object(root)) put_sealed(root);
    json_decref(root);
}

/* metadata.json as if the tensor file had been written like this. */
static void seal_tensors(const uint8_t *data, size_t n)
{
    json_t *root = json_loadb(fixed.good[0], fixed.n_good[0], 0, NULL);
    json_t *file = json_array_get(json_object_get(root, "files"), 0);
    uint64_t length = 0;
    char sum[SUM_TEXT_MAX];
    if (n >= 8) memcpy(&length, data, sizeof length);
    if (n >= 8 && length <= n - 8) {
        sum_text(sum, sum_of(data, 8 + (size_t)length));
        json_object_set_new(file, "header_xxh64", json_string(sum));
        json_object_set_new(file, "bytes", json_integer((json_int_t)n));
        put_sealed(root);
    }
    json_decref(root);
}

/* ---- changes to the JSON of metadata.json, or of a tensor file's header */

static json_t *any_value(unsigned *seed)
{
    static const char *const texts[] = {
        "of 4,4 at 0,0 xxh64 0123456789abcdef",
        "of 4 at 4 xxh64 0123456789abcdef",
        "of 9223372036854775807,9223372036854775807 at 1,1 xxh64 0123456789abcdef",
        "of 4,4 at 9223372036854775807,0 xxh64 0123456789abcdef",
        "0123456789abcdef",
        "weights",
        "exp_avg",
        "../x",
        "F32",
        "U8",
    };
    switch (mutate_random(seed, 8)) {
    case 0:
        return json_null();
    case 1:
        return json_pack("[i,i,i]", 2, 4, 4);
    case 2:
    case 3:
        return json_string(MUTATE_PICK(seed, texts));
    default:
        return json_integer(MUTATE_PICK(seed, mutate_sizes));
    }
}

/* Another line in the recipe of metadata.json. */
static bool change_recipe(json_t *root, unsigned *seed)
{
    const char *was = json_string_value(json_object_get(root, "recipe"));
    if (!was) return false;
    size_t n = strlen(was), room = n + 4096;
    char *text = malloc(room);
    MUST(text);
    memcpy(text, was, n);
    n = mutate_recipe((uint8_t *)text, n, room - 1, *seed);
    json_t *now = json_stringn(text, n);
    free(text);
    if (now) json_object_set_new(root, "recipe", now);
    return now != NULL;
}

static void change(json_t *at, unsigned *seed)
{
    size_t n = json_is_array(at) ? json_array_size(at) : json_object_size(at);
    if (n == 0) return;
    unsigned which = mutate_random(seed, (unsigned)n);
    void *member = json_object_iter(at);
    for (unsigned i = 0; member && i < which; i++) member = json_object_iter_next(at, member);
    json_t *inside = member ? json_object_iter_value(member) : json_array_get(at, which);
    if ((json_is_array(inside) || json_is_object(inside)) && mutate_random(seed, 8))
        change(inside, seed);
    else if (!member)
        json_array_set_new(at, which, any_value(seed));
    else if (mutate_random(seed, 8) == 0)
        json_object_del(at, json_object_iter_key(member));
    else
        json_object_iter_set_new(at, member, any_value(seed));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    bool tensors = n > 9 && data[0] % N_KINDS == TENSORS_SEALED;
    size_t start = tensors ? 9 : 1, length = n > start ? n - start : 0;
    uint64_t given = 0;
    if (tensors) memcpy(&given, data + 1, sizeof given);
    if (tensors) length = given < length ? (size_t)given : 0;
    json_t *root = json_loadb((const char *)data + start, length, 0, NULL);
    bool readable = json_is_object(root) && mutate_random(&seed, 4);
    bool other = readable && mutate_random(&seed, 3) == 0 && change_recipe(root, &seed);
    if (readable && !other) change(root, &seed);
    char *text = readable ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text) return LLVMFuzzerMutate(data, n, max);
    size_t after = strlen(text), rest = n - start - length;
    if (start + after + rest <= max) {
        memmove(data + start + after, data + start + length, rest);
        memcpy(data + start, text, after);
        given = after;
        if (tensors) memcpy(data + 1, &given, sizeof given);
        n = start + after + rest;
    }
    free(text);
    return n;
}

/* ---- the target */

static void put_input(int kind, const uint8_t *data, size_t n)
{
    put_file(0, fixed.good[0], fixed.n_good[0]);
    put_file(1, fixed.good[1], fixed.n_good[1]);
    put_file(2, "1", 1);
    switch (kind) {
    case META:
    case META_SEALED:
        put_file(0, data, n);
        if (kind == META_SEALED) seal_meta(data, n);
        break;
    case TENSORS:
    case TENSORS_SEALED:
        put_file(1, data, n);
        if (kind == TENSORS_SEALED) seal_tensors(data, n);
        break;
    default:
        put_file(2, data, n);
    }
}

static void must_be_the_same(void) /* I1 */
{
    for (int i = 0; i < fixed.w.n; i++) {
        const weight *w = &fixed.w.list[i];
        MUST(memcmp(fixed.c.weights + w->offset, fixed.saved + w->offset,
                    (size_t)w->n * sizeof(float)) == 0);
    }
}

/* The recipe that a checkpoint brings is foreign, too, and its checksum says nothing about it. */
static void compare_recipes(int64_t iteration)
{
    arena *a = arena_create();
    checkpoint_info info;
    error err = {0};
    if (fuzz_accepted(checkpoint_read_info(&info, a, fixed.folder, iteration, &err), &err)) {
        textbuf changed = text_init(a);
        const stored_recipe stored = checkpoint_recipe(&info);
        fuzz_accepted(stored_compare(&stored, &fixed.s.r, true, &changed, &err), &err);
        MUST(text_is_plain(changed.s));
        err.text[0] = 0;
        fuzz_accepted(stored_same_job(&stored, &fixed.s.r, fixed.folder, &err), &err);
        stored_vocabulary(&stored, a);
    }
    arena_destroy(a);
}

static void must_be_possible(const checkpoint_state *s) /* I3 */
{
    const int64_t counted[] = {
        s->iteration,          s->consumed_samples,  s->consumed_valid_samples,
        s->skipped_iterations, s->scheduler_samples, s->optimizer_steps};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        MUST(counted[i] >= 0 && counted[i] <= INT64_C(1) << 53);
    MUST(s->skipped_iterations <= s->iteration && s->optimizer_steps <= s->iteration);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    prepare();
    if (n == 0) return 0;
    int kind = data[0] % N_KINDS;
    put_input(kind, data + 1, n - 1);
    int64_t latest = -1, elements = fixed.w.elements;
    error err = {0};
    if (!fuzz_accepted(checkpoint_latest(fixed.folder, &latest, &err), &err)) return 0;
    if (kind == META_SEALED) compare_recipes(latest);
    memset(fixed.c.weights, 0, (size_t)(elements + 64) * sizeof(float));
    status s = checkpoint_load(&fixed.c, fixed.folder, latest, &err);
    bool accepted = fuzz_accepted(s, &err);
    if (!accepted) MUST(strstr(err.text, "iter_"));
    if (accepted && kind != META_SEALED && kind != TENSORS_SEALED) must_be_the_same();
    if (accepted) must_be_possible(&fixed.c.state);
    for (int64_t i = elements; i < elements + 64; i++) MUST(fixed.c.weights[i] == 0); /* I2 */
    return 0;
}
