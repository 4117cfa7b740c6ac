/* fuzz_safetensors.c - a model.safetensors of one of three small models, read as weights.
 *
 * The first byte picks the model, the rest is the file. Bytes changed at random seldom leave a
 * header that can be read; so most changes are made to its JSON: names, types, shapes and ranges.
 *
 * I1  What is accepted accounts for every tensor of the file and every element of the weights. */
#include "fuzz/mutate.h"

#include <ftw.h>
#include <jansson.h>
#include <unistd.h>

#include "train/hf/weights.h"

#define SMALL                                                                                      \
    "model.num_layers=1 model.num_attention_heads=2 model.num_query_groups=1 model.kv_channels=4 " \
    "model.vocab_size=4 model.num_moe_experts=2 model.moe_router_topk=1 "

static const char *const models[] = {
    SMALL "model.hidden_size=4 model.moe_ffn_hidden_size=2 model.qk_layernorm=true",
    SMALL
    "model.hidden_size=4 model.moe_ffn_hidden_size=2 model.multi_latent_attention=true "
    "model.kv_lora_rank=4 model.q_lora_rank=2 model.qk_head_dim=2 model.qk_pos_emb_head_dim=2 "
    "model.v_head_dim=2 model.qk_layernorm=true model.moe_router_enable_expert_bias=true "
    "model.moe_router_score_function=sigmoid model.mtp_num_layers=1",
    SMALL "model.hidden_size=32 model.moe_ffn_hidden_size=32 model.softmax_type=learnable "
          "model.add_bias_linear=true model.share_embeddings_and_output_weights=true",
};
enum { N_MODELS = sizeof models / sizeof models[0] };

static struct {
    char folder[64];
    arena *a;
    setup s[N_MODELS];
    weight_list w[N_MODELS];
    float *flat[N_MODELS];
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

static void make_model(int i)
{
    recipe *r = ARENA_NEW(fixed.a, recipe);
    error err = {0};
    recipe_init(r, fixed.a, "fuzz");
    for (const char *p = models[i]; *p;) {
        size_t n = strcspn(p, " ");
        MUST(recipe_override(r, arena_copy(fixed.a, p, n), "fuzz", &err) == OK);
        p += n + strspn(p + n, " ");
    }
    MUST(setup_init(&fixed.s[i], r, fixed.a, &err) == OK);
    weight_list_init(&fixed.w[i], &fixed.s[i], fixed.a);
    fixed.flat[i] = ARENA_ARRAY(fixed.a, float, fixed.w[i].elements);
}

static void prepare(void)
{
    const char *above = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    if (fixed.a) return;
    fixed.a = arena_create();
    snprintf(fixed.folder, sizeof fixed.folder, "%s/moefold-fuzz-XXXXXX", above);
    MUST(mkdtemp(fixed.folder));
    atexit(clean_up);
    for (int i = 0; i < N_MODELS; i++) make_model(i);
}

/* ---- changes */

static json_t *any_shape(unsigned *seed)
{
    json_t *list = json_array();
    for (unsigned n = mutate_random(seed, 5); n; n--)
        json_array_append_new(list, json_integer(MUTATE_PICK(seed, mutate_sizes)));
    return list;
}

static void change_tensor(json_t *tensor, unsigned *seed)
{
    static const char *const types[] = {"F32", "BF16", "F16", "F8_E4M3", "U8", "I32", "F4", "x"};
    json_t *range = json_object_get(tensor, "data_offsets"),
           *shape = json_object_get(tensor, "shape");
    switch (mutate_random(seed, 4)) {
    case 0:
        json_object_set_new(tensor, "dtype", json_string(MUTATE_PICK(seed, types)));
        break;
    case 1:
        json_object_set_new(tensor, "shape", any_shape(seed));
        break;
    case 2:
        json_array_set_new(range, mutate_random(seed, 2),
                           json_integer(MUTATE_PICK(seed, mutate_sizes)));
        break;
    default:
        json_array_insert_new(shape, 0, json_integer(MUTATE_PICK(seed, mutate_sizes)));
    }
}

static void change_header(json_t *root, unsigned *seed)
{
    size_t n = json_object_size(root);
    void *at = json_object_iter(root);
    for (unsigned skip = n ? mutate_random(seed, (unsigned)n) : 0; skip; skip--)
        at = json_object_iter_next(root, at);
    if (!at) return;
    json_t *tensor = json_object_iter_value(at);
    const char *name = json_object_iter_key(at);
    char other[200];
    static const char *const tails[] = {"_scale_inv", "_blocks", "_scales", "x"};
    switch (mutate_random(seed, 4)) {
    case 0:
        json_object_del(root, name);
        break;
    case 1:
        snprintf(other, sizeof other, "%.150s%s", name, MUTATE_PICK(seed, tails));
        json_object_set(root, other, tensor);
        break;
    default:
        change_tensor(tensor, seed);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    uint64_t length = 0;
    if (n > 9) memcpy(&length, data + 1, sizeof length);
    if (n <= 9 || length > n - 9 || mutate_random(&seed, 4) == 0)
        return LLVMFuzzerMutate(data, n, max);
    json_t *root = json_loadb((const char *)data + 9, (size_t)length, 0, NULL);
    if (json_is_object(root)) change_header(root, &seed);
    char *text = json_is_object(root) ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    uint64_t after = text ? strlen(text) : 0;
    size_t rest = n - 9 - (size_t)length;
    if (text && 9 + after + rest <= max) {
        memmove(data + 9 + after, data + 9 + length, rest);
        memcpy(data + 1, &after, sizeof after);
        memcpy(data + 9, text, after);
        n = 9 + (size_t)after + rest;
    }
    free(text);
    return n;
}

/* ---- the target */

static void put_file(const uint8_t *data, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/model.safetensors", fixed.folder);
    FILE *f = fopen(path, "wb");
    MUST(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

static void must_account(const hf_report *r, int i) /* I1 */
{
    int64_t n = 0;
    for (int k = 0; k < fixed.w[i].n; k++) n += fixed.w[i].list[k].n;
    MUST(r->written + r->padded == n);
    MUST(r->used.elements + r->applied.elements + r->ignored.elements == r->found.elements);
    MUST(r->used.tensors + r->applied.tensors + r->ignored.tensors == r->found.tensors);
    for (int k = 0; k < r->ignored.tensors; k++) MUST(r->list[k].reason && r->list[k].reason[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    prepare();
    if (n == 0) return 0;
    int i = data[0] % N_MODELS;
    put_file(data + 1, n - 1);
    arena_place mark = arena_mark(fixed.a);
    hf_report report;
    error err = {0};
    status s = hf_load(&(hf_rank){&fixed.s[i], NULL, &fixed.w[i], fixed.flat[i]}, fixed.folder,
                       &report, &err);
    if (fuzz_accepted(s, &err))
        must_account(&report, i);
    else
        MUST(strstr(err.text, "model.safetensors"));
    arena_release(fixed.a, mark);
    return 0;
}
