/* idx.c - reading and checking .idx and .bin.
 *
 * I1  No count is multiplied before it is known to be smaller than the file.
 * I2  Every sequence lies inside .bin, and its length is not negative.
 * I3  The list of documents starts with 0, never falls, and ends with S.
 * I4  All of that was so when the files were opened. Who changes them afterwards can make a
 *     sequence's place any number, so a slice is compared with the .bin once more. */
#include "train/data/idx.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files are little-endian");

enum { HEADER_BYTES = 34, VERSION = 1, READ_BYTES = 4096 };

#define DAMAGED "; the file is damaged or incomplete: copy or write it again"
#define CHANGED                                                                                    \
    "; another program changed it while this run reads it: restore the data, keep them "           \
    "unchanged, and resume from the last checkpoint"

/* ---- token types */

/* Widens n ids. Returns how many the model can take: n, or the place of the first it cannot. */
typedef int64_t widen(const unsigned char *from, int64_t n, data_ids ids, int32_t *out);

#define WIDEN(name, type)                                                                          \
    static int64_t name(const unsigned char *from, int64_t n, data_ids ids, int32_t *out)          \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type packed;                                                                           \
            memcpy(&packed, from + i * (int64_t)sizeof packed, sizeof packed);                     \
            int64_t id = packed;                                                                   \
            if ((id < 0 || id >= ids.vocab_size) && id != ids.pad) return i;                       \
            out[i] = (int32_t)id;                                                                  \
        }                                                                                          \
        return n;                                                                                  \
    }
WIDEN(widen_u8, uint8_t)
WIDEN(widen_i8, int8_t)
WIDEN(widen_i16, int16_t)
WIDEN(widen_i32, int32_t)
WIDEN(widen_i64, int64_t)
WIDEN(widen_u16, uint16_t)

static const struct {
    const char *name;
    int bytes;
    bool is_signed;
    widen *run; /* NULL: no type of token ids */
} types[] = {
    [1] = {"uint8", 1, false, widen_u8}, [2] = {"int8", 1, true, widen_i8},
    [3] = {"int16", 2, true, widen_i16}, [4] = {"int32", 4, true, widen_i32},
    [5] = {"int64", 8, true, widen_i64}, [6] = {"float64", 8, true, NULL},
    [7] = {"float32", 4, true, NULL},    [8] = {"uint16", 2, false, widen_u16},
};
enum { N_TYPES = sizeof types / sizeof types[0] };

const char *idx_type_name(const idx_file *f)
{
    return types[f->type].name;
}

/* ---- checks */

static int64_t i64_at(const unsigned char *list, int64_t i)
{
    int64_t v;
    memcpy(&v, list + 8 * i, sizeof v);
    return v;
}

static uint64_t u64_at(const unsigned char *bytes)
{
    uint64_t v;
    memcpy(&v, bytes, sizeof v);
    return v;
}

int64_t idx_document(const idx_file *f, int64_t place)
{
    return i64_at(f->documents, place);
}

static status check_header(const idx_bytes *b, error *err)
{
    static const unsigned char magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
    const unsigned char *h = b->idx.bytes;
    if (b->idx.n_bytes < HEADER_BYTES)
        return error_set(err, ERR_INPUT,
                         "%s.idx: has %" PRId64 " bytes, fewer than its header of %d" DAMAGED,
                         b->prefix, b->idx.n_bytes, HEADER_BYTES);
    if (memcmp(h, magic, sizeof magic) != 0)
        return error_set(err, ERR_INPUT,
                         "%s.idx: does not start with MMIDIDX: it is not an index of Megatron data",
                         b->prefix);
    if (u64_at(h + 9) != VERSION)
        return error_set(err, ERR_INPUT, "%s.idx: has version %" PRIu64 "; only %d is known",
                         b->prefix, u64_at(h + 9), VERSION);
    if (h[17] == 0 || h[17] >= N_TYPES)
        return error_set(err, ERR_INPUT,
                         "%s.idx: has the token type %d, which does not exist" DAMAGED, b->prefix,
                         h[17]);
    if (!types[h[17]].run)
        return error_set(err, ERR_INPUT, "%s.idx: has tokens of type %s; ids are whole numbers",
                         b->prefix, types[h[17]].name);
    return OK;
}

/* S and D against the size of the file. */
static status check_counts(const idx_bytes *b, uint64_t n_sequences, uint64_t n_entries, error *err)
{
    uint64_t room = (uint64_t)b->idx.n_bytes - HEADER_BYTES;
    bool fits = n_sequences <= room / 12 && n_entries <= room / 8; /* I1 */
    uint64_t need = fits ? 12 * n_sequences + 8 * n_entries : 0;
    if (!fits || (need != room && need + n_sequences != room))
        return error_set(err, ERR_INPUT,
                         "%s.idx: has %" PRId64 " bytes, which is not what %" PRIu64
                         " sequences and %" PRIu64 " document entries take" DAMAGED,
                         b->prefix, b->idx.n_bytes, n_sequences, n_entries);
    if (n_sequences > INT32_MAX)
        return error_set(err, ERR_INPUT,
                         "%s.idx: has %" PRIu64
                         " sequences; 2^31 - 1 can be numbered: split the set",
                         b->prefix, n_sequences);
    if (n_entries == 0)
        return error_set(err, ERR_INPUT, "%s.idx: its list of documents is empty" DAMAGED,
                         b->prefix);
    return OK;
}

static status check_sequences(const idx_file *f, const idx_bytes *b, error *err) /* I2 */
{
    int64_t size = types[f->type].bytes;
    for (int64_t i = 0; i < f->store.n_sequences; i++) {
        int64_t length = data_store_length(&f->store, i), at = i64_at(f->offsets, i);
        if (length < 0)
            return error_set(err, ERR_INPUT,
                             "%s.idx: sequence %" PRId64 " has %" PRId64 " tokens" DAMAGED,
                             b->prefix, i, length);
        if (at < 0 || at > b->bin.n_bytes || length > (b->bin.n_bytes - at) / size)
            return error_set(err, ERR_INPUT,
                             "%s.bin: has %" PRId64 " bytes, but the .idx puts sequence %" PRId64
                             " (%" PRId64 " tokens of %d bytes) at byte %" PRId64 DAMAGED,
                             b->prefix, b->bin.n_bytes, i, length, (int)size, at);
    }
    return OK;
}

static status check_documents(const idx_file *f, const idx_bytes *b, error *err) /* I3 */
{
    int64_t last = 0;
    for (int64_t i = 0; i <= f->n_documents; i++) {
        int64_t v = i64_at(f->documents, i);
        if (v < last || v > f->store.n_sequences || (i == 0 && v != 0))
            return error_set(err, ERR_INPUT,
                             "%s.idx: entry %" PRId64 " of the documents is %" PRId64
                             ", after %" PRId64 " and with %" PRId64 " sequences" DAMAGED,
                             b->prefix, i, v, last, f->store.n_sequences);
        last = v;
    }
    if (last != f->store.n_sequences)
        return error_set(err, ERR_INPUT,
                         "%s.idx: the documents end at sequence %" PRId64 " of %" PRId64 DAMAGED,
                         b->prefix, last, f->store.n_sequences);
    return OK;
}

/* ---- reading */

static status refuse_id(const idx_file *f, const unsigned char *at, data_slice place, error *err)
{
    int bytes = types[f->type].bytes;
    int64_t id = types[f->type].is_signed && (at[bytes - 1] & 0x80) ? -1 : 0;
    memcpy(&id, at, (size_t)bytes);
    return error_set(err, ERR_INPUT,
                     "%s.bin: sequence %" PRId64 " has the token %" PRId64 " at position %" PRId64
                     ", outside the vocabulary of %" PRId32
                     "; were the data made with another tokenizer?",
                     f->store.name, place.sequence, id, place.first, f->store.ids.vocab_size);
}

static status take(const idx_file *f, const unsigned char *from, data_slice s, int32_t *out,
                   error *err)
{
    int64_t good = types[f->type].run(from, s.n, f->store.ids, out);
    if (good == s.n) return OK;
    s.first += good;
    return refuse_id(f, from + good * types[f->type].bytes, s, err);
}

static status read_bytes(const idx_file *f, unsigned char *to, int64_t n, int64_t at, error *err)
{
    while (n > 0) {
        ssize_t got = pread(f->fd, to, (size_t)n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return error_set(err, ERR_MACHINE, "%s.bin: cannot be read at byte %" PRId64 ": %s",
                             f->store.name, at,
                             got ? strerror(errno) : "the file has been shortened");
        to += got;
        n -= got;
        at += got;
    }
    return OK;
}

/* Samples are read in random order, so the system is told not to read ahead at all, and here what
 * is needed now. Guessing costs: where 8 MB are read ahead of each place, a sample took 13 ms. */
static void announce(const unsigned char *from, int64_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)from / page * page, end = (uintptr_t)from + (uintptr_t)n;
    if (end - first > page) posix_madvise((void *)first, end - first, POSIX_MADV_WILLNEED);
}

/* I4. OK: the slice lies in the .bin, `at` this byte. */
static status place_slice(const idx_file *f, data_slice s, int64_t *at, error *err)
{
    int64_t size = types[f->type].bytes, start = i64_at(f->offsets, s.sequence);
    bool fits = start >= 0 && start <= f->bin.n_bytes && s.first >= 0 && s.n >= 0;
    int64_t room = fits ? (f->bin.n_bytes - start) / size : 0;
    if (!fits || s.first > room || s.n > room - s.first)
        return error_set(err, ERR_MACHINE,
                         "%s.idx: puts sequence %" PRId64 " at byte %" PRId64
                         " of a .bin of %" PRId64 ", which was not so when it was opened" CHANGED,
                         f->store.name, s.sequence, start, f->bin.n_bytes);
    *at = start + s.first * size;
    return OK;
}

static status read_slice(const data_store *store, data_slice s, int32_t *out, error *err)
{
    const idx_file *f = (const idx_file *)store;
    if (s.n == 0) return OK; /* the .bin may be empty and then is not mapped */
    int64_t size = types[f->type].bytes, at = 0;
    TRY(place_slice(f, s, &at, err));
    if (f->fd < 0) {
        announce(f->bin.bytes + at, s.n * size);
        return take(f, f->bin.bytes + at, s, out, err);
    }
    unsigned char room[READ_BYTES];
    for (int64_t left = s.n; left > 0; left -= s.n) {
        s.n = left < READ_BYTES / size ? left : READ_BYTES / size;
        TRY(read_bytes(f, room, s.n * size, at, err));
        TRY(take(f, room, s, out, err));
        s.first += s.n;
        at += s.n * size;
        out += s.n;
    }
    return OK;
}

/* The end of a file's last page reads as zeros without a signal, so its size is asked for, too. A
 * file that was replaced under its name is another one: what is mapped stays as it is. */
static status map_is_whole(const idx_map *m, error *err)
{
    struct stat now;
    if (!m->path) return OK;
    bool same = stat(m->path, &now) == 0 && (uint64_t)now.st_dev == m->device &&
                (uint64_t)now.st_ino == m->inode;
    if (same && (int64_t)now.st_size < m->n_bytes)
        return error_set(err, ERR_MACHINE,
                         "%s: had %" PRId64 " bytes when it was opened and has been shortened to "
                         "%lld" CHANGED,
                         m->path, m->n_bytes, (long long)now.st_size);
    if (guard_lost(m->g))
        return error_set(err, ERR_MACHINE,
                         "%s: %" PRId64 " bytes, of which a part cannot be read any more; look at "
                         "the disk (dmesg), and resume from the last checkpoint",
                         m->path, m->n_bytes);
    return OK;
}

static status whole(const data_store *store, error *err)
{
    const idx_file *f = (const idx_file *)store;
    TRY(map_is_whole(&f->idx, err));
    return map_is_whole(&f->bin, err);
}

status idx_parse(idx_file *f, const idx_bytes *b, error *err)
{
    TRY(check_header(b, err));
    const unsigned char *h = b->idx.bytes;
    uint64_t n_sequences = u64_at(h + 18), n_entries = u64_at(h + 26);
    TRY(check_counts(b, n_sequences, n_entries, err));
    idx_file found = {
        .store = {b->prefix, (int64_t)n_sequences, h + HEADER_BYTES, b->ids, read_slice, whole},
        .offsets = h + HEADER_BYTES + 4 * n_sequences,
        .documents = h + HEADER_BYTES + 12 * n_sequences,
        .n_documents = (int64_t)n_entries - 1,
        .type = h[17],
        .idx = b->idx,
        .bin = b->bin,
        .fd = -1,
    };
    TRY(check_sequences(&found, b, err));
    TRY(check_documents(&found, b, err));
    *f = found;
    return OK;
}

/* ---- files */

static status open_file(const char *path, int *fd, idx_map *map, error *err)
{
    struct stat info;
    if (!file_exists(path))
        return error_set(err, ERR_INPUT, "%s: %s; name the data without .bin or .idx", path,
                         strerror(errno));
    TRY(file_open(path, fd, err));
    if (fstat(*fd, &info) == 0) {
        map->n_bytes = (int64_t)info.st_size;
        map->path = path;
        map->device = (uint64_t)info.st_dev;
        map->inode = (uint64_t)info.st_ino;
        return OK;
    }
    close(*fd);
    return error_set(err, ERR_MACHINE, "%s: %s", path, strerror(errno));
}

static status map_file(const char *path, int fd, idx_map *map, error *err)
{
    if (map->n_bytes == 0) return OK; /* cannot be mapped, and nobody reads it */
    void *bytes = mmap(NULL, (size_t)map->n_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return error_set(err, ERR_MACHINE, "%s: cannot be mapped: %s", path, strerror(errno));
    map->bytes = bytes;
    map->g = guard_take(bytes, (size_t)map->n_bytes);
    return OK;
}

static void unmap(idx_map map)
{
    guard_release(map.g);
    if (map.bytes) munmap((void *)(uintptr_t)map.bytes, (size_t)map.n_bytes);
}

/* Maps the file; the descriptor is closed unless it is asked for, and then nothing is mapped. */
static status open_map(const char *path, idx_map *map, int *keep_fd, error *err)
{
    int fd;
    status s = open_file(path, &fd, map, err);
    if (s) return s;
    if (keep_fd) {
        *keep_fd = fd;
        return OK;
    }
    s = map_file(path, fd, map, err);
    close(fd);
    return s;
}

status idx_open(idx_file *f, const char *prefix, const idx_options *o, arena *a, error *err)
{
    idx_bytes b = {.prefix = prefix, .ids = o->ids};
    int fd = -1;
    status s = open_map(arena_text(a, "%s.idx", prefix), &b.idx, NULL, err);
    if (!s) s = open_map(arena_text(a, "%s.bin", prefix), &b.bin, o->read_bin ? &fd : NULL, err);
    if (!s) s = idx_parse(f, &b, err);
    if (!s) s = whole(&f->store, err);
    if (!s) {
        f->fd = fd;
        if (b.bin.bytes)
            posix_madvise((void *)(uintptr_t)b.bin.bytes, (size_t)b.bin.n_bytes, POSIX_MADV_RANDOM);
        return OK;
    }
    unmap(b.idx);
    unmap(b.bin);
    if (fd >= 0) close(fd);
    return s;
}

void idx_close(idx_file *f)
{
    unmap(f->idx);
    unmap(f->bin);
    if (f->fd >= 0) close(f->fd);
    *f = (idx_file){.fd = -1};
}
