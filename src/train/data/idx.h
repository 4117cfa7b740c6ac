/* idx.h - Megatron's training data: PREFIX.idx and PREFIX.bin.
 *
 * PREFIX.bin has the token ids back to back. PREFIX.idx says how to read them, little-endian and
 * packed, so nothing behind byte 34 is aligned:
 *
 *     byte   0  9 bytes   "MMIDIDX" and two zeros
 *            9  u64       version, 1
 *           17  u8        type of a token: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f64, 7 f32, 8 u16
 *           18  u64       S, the number of sequences
 *           26  u64       D, the number of documents + 1
 *           34  S i32     tokens of each sequence
 *               S i64     byte in .bin where each sequence starts
 *               D i64     first sequence of each document, and S
 *               S i8      modes, in multimodal sets only; not used
 *
 * Both files are mapped, never copied; the .bin is read where it lies unless `read_bin` asks for
 * plain reads. All of the .idx is checked when it is opened. A file that others shorten or write
 * anew in place while it is mapped (guard.h) gives numbers that are wrong but stay inside of both
 * files, and the store's `whole` tells. */
#ifndef TRAIN_DATA_IDX_H
#define TRAIN_DATA_IDX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "train/data/guard.h"
#include "train/data/store.h"

typedef struct idx_map {
    const unsigned char *bytes; /* NULL: not mapped */
    int64_t n_bytes;
    const char *path; /* NULL: lies in memory, and does not change */
    uint64_t device, inode;
    guard *g;
} idx_map;

typedef struct idx_file {
    data_store store;               /* first: the store's `read` finds the rest behind it */
    const unsigned char *offsets;   /* [S] i64, not aligned */
    const unsigned char *documents; /* [D] i64, not aligned */
    int64_t n_documents;            /* D - 1 */
    int type;                       /* row of the table of token types */
    idx_map idx, bin;
    int fd; /* of the .bin where it is not mapped, else -1 */
} idx_file;

typedef struct idx_options {
    data_ids ids;
    bool read_bin; /* dataset.mmap_bin_files off */
} idx_options;

/* `prefix` must live as long as the file. Whatever is wrong with the files is ERR_INPUT, with the
 * file and the reason; then nothing is left open. */
status idx_open(idx_file *f, const char *prefix, const idx_options *o, arena *a, error *err);
void idx_close(idx_file *f);

/* The same for files that lie in memory, which the caller keeps: nothing is to be closed. */
typedef struct idx_bytes {
    const char *prefix;
    idx_map idx, bin;
    data_ids ids;
} idx_bytes;
status idx_parse(idx_file *f, const idx_bytes *b, error *err);

const char *idx_type_name(const idx_file *f);           /* "uint16" */
int64_t idx_document(const idx_file *f, int64_t place); /* entry of the list of documents */

#endif
