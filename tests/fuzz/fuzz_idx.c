/* fuzz_idx.c - .idx files of training data, and the samples that are then cut from them.
 *
 * The .bin has ids below 199 whatever their type. Most inputs are a whole .idx, or one with a
 * single fault: bytes at random seldom have lengths and places that agree.
 *
 * I1  What was accepted can be read whole: every slice lies inside the .bin, and the only refusal
 *     is that of an id. With a vocabulary that has them all nothing is refused.
 * I2  The places of samples never fall and lie inside the order of documents. */
#include "fuzz/mutate.h"

#include "base/maths.h"
#include "train/data/idx.h"
#include "train/data/sample.h"

enum { BIN_BYTES = 5188, IDS = 199, SEQ = 24, ROOM = 64, SAMPLES_READ = 500 };
enum { HEADER = 34, TYPE_AT = 17, SEQUENCES_MOST = 40 };

static int64_t bytes_of(int type)
{
    static const int bytes[] = {1, 1, 1, 2, 4, 8, 8, 4, 2};
    return type >= 0 && type < 9 ? bytes[type] : 1;
}

/* Do all sequences start where an id does? Only then are they ids of ours. */
static bool aligned(const idx_file *f)
{
    for (int64_t i = 0; i < f->store.n_sequences; i++) {
        int64_t at;
        memcpy(&at, f->offsets + 8 * i, sizeof at);
        if (at % bytes_of(f->type)) return false;
    }
    return true;
}

static void read_all(const idx_file *f) /* I1 */
{
    int32_t ids[ROOM];
    for (int64_t i = 0; i < f->store.n_sequences; i++) {
        int64_t n = data_store_length(&f->store, i);
        MUST(n >= 0);
        for (int64_t at = 0; at < n; at += ROOM) {
            error err = {0};
            data_slice slice = {i, at, n - at < ROOM ? n - at : ROOM};
            bool read = fuzz_accepted(f->store.read(&f->store, slice, ids, &err), &err);
            MUST(read || !aligned(f) || f->store.ids.vocab_size < IDS);
            for (int64_t k = 0; read && k < slice.n; k++)
                MUST(ids[k] >= 0 && ids[k] < f->store.ids.vocab_size);
        }
    }
    for (int64_t i = 0; i <= f->n_documents; i++) {
        MUST(idx_document(f, i) >= 0 && idx_document(f, i) <= f->store.n_sequences);
        MUST(i == 0 || idx_document(f, i) >= idx_document(f, i - 1));
    }
}

static void read_sample(const data_index *x, int64_t k)
{
    int32_t tokens[SEQ], labels[SEQ], positions[SEQ], cuts[SEQ + 1];
    float mask[SEQ];
    data_item item = {tokens, labels, mask, positions, cuts, 0, 0};
    sample_rules rules = {.eod = 1, .reset_positions = k % 2, .inter_document = k % 3 == 0};
    error err = {0};
    bool read = fuzz_accepted(sample_read(x, &rules, k, &item, &err), &err);
    MUST(read || x->ask.store->ids.vocab_size < IDS || !aligned((const idx_file *)x->ask.store));
    if (!read) return;
    for (int i = 0; i < SEQ; i++) {
        MUST(tokens[i] >= 0 && tokens[i] < x->ask.store->ids.vocab_size);
        MUST(labels[i] >= 0 && labels[i] < x->ask.store->ids.vocab_size);
        MUST(positions[i] >= 0 && positions[i] <= i);
    }
    MUST(item.n_pieces >= 1 && item.n_pieces <= SEQ && cuts[item.n_pieces] == SEQ);
}

static void cut_samples(const idx_file *f, bool extra, bool partial)
{
    data_index x;
    error err = {0};
    index_ask ask = {.store = &f->store,
                     .which = DATA_VALID,
                     .sequences = {0, f->store.n_sequences},
                     .seq_length = SEQ,
                     .n_samples = partial ? DATA_ALL : 40,
                     .extra_token = extra,
                     .keep_partial = partial};
    if (!fuzz_accepted(index_init(&x, &ask, &err), &err)) return;
    index_place last = {0, 0};
    for (int64_t k = 0; k < x.n_samples && k < SAMPLES_READ; k++) {
        index_place p = index_row(&x, k);
        MUST(p.entry > last.entry || (p.entry == last.entry && p.offset >= last.offset)); /* I2 */
        MUST(p.entry < x.n_entries);
        last = p;
        read_sample(&x, k);
    }
    index_release(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static unsigned char bin[BIN_BYTES];
    int64_t size = bytes_of(n > TYPE_AT ? data[TYPE_AT] : 4);
    int32_t vocab = n && data[n - 1] % 8 == 7 ? IDS / 2 : IDS;
    if (size == 1 && n > TYPE_AT && data[TYPE_AT] == 2) vocab = 128; /* int8 has no more */
    for (int64_t i = 0; i < BIN_BYTES; i++)
        bin[i] = (unsigned char)(i % size ? 0 : i / size * 7 % IDS);
    idx_bytes b = {.prefix = "fuzz",
                   .idx = {.bytes = data, .n_bytes = (int64_t)n},
                   .bin = {.bytes = bin, .n_bytes = BIN_BYTES},
                   .ids = {vocab, -1}};
    idx_file f;
    error err = {0};
    if (!fuzz_accepted(idx_parse(&f, &b, &err), &err)) return 0;
    read_all(&f);
    for (int i = 0; f.store.n_sequences && i < 4; i++) cut_samples(&f, i & 1, i & 2);
    return 0;
}

/* ---- a whole .idx, as Megatron writes them */

static size_t put(uint8_t *to, size_t at, int64_t v, size_t bytes)
{
    memcpy(to + at, &v, bytes);
    return at + bytes;
}

static size_t whole_idx(uint8_t *to, unsigned *seed)
{
    static const int types[] = {1, 3, 4, 5, 8};
    int64_t lengths[SEQUENCES_MOST], room = BIN_BYTES, place = 0;
    int type = MUTATE_PICK(seed, types), n = (int)mutate_random(seed, SEQUENCES_MOST);
    size_t at = 18;
    memcpy(to, "MMIDIDX\0\0\1\0\0\0\0\0\0\0", TYPE_AT);
    to[TYPE_AT] = (uint8_t)type;
    for (int i = 0; i < n; i++) {
        int64_t most = room / bytes_of(type) < 90 ? room / bytes_of(type) : 90;
        lengths[i] = mutate_random(seed, (unsigned)most + 1);
        room -= lengths[i] * bytes_of(type);
    }
    unsigned each = 1 + mutate_random(seed, 4); /* sequences of a document */
    int64_t documents = ceil_div(n, each);
    at = put(to, at, n, 8);
    at = put(to, at, documents + 1, 8);
    for (int i = 0; i < n; i++) at = put(to, at, lengths[i], 4);
    for (int i = 0; i < n; i++) {
        at = put(to, at, place, 8);
        place += lengths[i] * bytes_of(type);
    }
    for (int64_t i = 0; i < documents; i++) at = put(to, at, i * each, 8);
    return put(to, at, n, 8);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned int seed)
{
    enum { WHOLE_MOST = HEADER + 20 * SEQUENCES_MOST + 8 };
    if (mutate_random(&seed, 3) == 0 || max < WHOLE_MOST) return LLVMFuzzerMutate(data, n, max);
    if (mutate_random(&seed, 2) || n < HEADER) n = whole_idx(data, &seed);
    if (mutate_random(&seed, 2)) return n;
    size_t at = HEADER - 16 + 4 * mutate_random(&seed, (unsigned)(n - HEADER + 16) / 4);
    int64_t v = MUTATE_PICK(&seed, mutate_sizes);
    if (at + 4 <= n) memcpy(data + at, &v, 4);
    return n;
}
