/* fuzz_idx.c - .idx files of training data, and the samples that are then cut from them.
 *
 * I1  What was accepted can be read whole: every slice lies inside the .bin, and the only refusal
 *     is that of an id.
 * I2  The places of samples never fall and lie inside the order of documents. */
#include "fuzz/fuzz.h"

#include "run/data/idx.h"
#include "run/data/sample.h"

enum { BIN_BYTES = 5188, VOCAB = 200, SEQ = 24, ROOM = 64, SAMPLES_READ = 500 };

static void read_all(const idx_file *f) /* I1 */
{
    int32_t ids[ROOM];
    for (int64_t i = 0; i < f->store.n_sequences; i++) {
        int64_t n = data_store_length(&f->store, i);
        MUST(n >= 0);
        for (int64_t at = 0; at < n; at += ROOM) {
            error err = {0};
            data_slice slice = {i, at, n - at < ROOM ? n - at : ROOM};
            fuzz_accepted(f->store.read(&f->store, slice, ids, &err), &err);
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
    if (!fuzz_accepted(sample_read(x, &rules, k, &item, &err), &err)) return;
    for (int i = 0; i < SEQ; i++) {
        MUST(tokens[i] >= 0 && tokens[i] < VOCAB && labels[i] >= 0 && labels[i] < VOCAB);
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
    for (int i = 0; i < BIN_BYTES; i++) bin[i] = (unsigned char)(i % 4 ? 0 : i / 4 % 251);
    idx_bytes b = {.prefix = "fuzz",
                   .idx = {.bytes = data, .n_bytes = (int64_t)n},
                   .bin = {.bytes = bin, .n_bytes = BIN_BYTES},
                   .ids = {VOCAB, -1}};
    idx_file f;
    error err = {0};
    if (!fuzz_accepted(idx_parse(&f, &b, &err), &err)) return 0;
    read_all(&f);
    for (int i = 0; f.store.n_sequences && i < 4; i++) cut_samples(&f, i & 1, i & 2);
    return 0;
}
