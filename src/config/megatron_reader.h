/* megatron_reader.h - reading flags one after another; shared by the files that read Megatron-LM's
 * inputs. */
#ifndef CONFIG_MEGATRON_READER_H
#define CONFIG_MEGATRON_READER_H

#include "config/megatron.h"
#include "config/megatron_table.h"
#include "config/shell.h"
#include "config/slurm_header.h"

enum { LAST_MAX = 16, TROUBLE_MAX = 512 };

/* A flag that nobody knows, or a variable without a value. */
typedef struct trouble {
    const char *name, *where, *flag;
} trouble;

typedef struct troubles {
    trouble *items;
    int n, room;
} troubles;

typedef struct reader {
    recipe *r;
    const char *name;  /* of the file */
    const char *where; /* of the word that is read */
    error *err;
    bool in_file;     /* a whole file: trouble is gathered; else the first one is the error */
    bool in_launcher; /* no flag of Megatron-LM itself yet */
    bool group_queries;
    value padded_vocab;       /* V_NULL: not said */
    int64_t n_nodes, n_procs; /* torchrun; 0: not said */
    bool torchrun;            /* starts the ranks of a node, one node unless it says more */
    slurm_header slurm;       /* of a batch script */
    const combo *last[LAST_MAX];
    int n_last;
    const char *tokenizer, *tokenizer_model; /* NULL: not said */
    bool vocab_file;
    troubles unknown, missing;
} reader;

/* One flag with its values: how many words it took. */
status reader_flag(reader *rd, int n, char *const *words, int *used);

/* Makes the settings of a flag that is not one knob's. */
status combo_apply(recipe *r, const combo *c, const char *where, error *err);

/* All words from `from` on. */
status reader_words(reader *rd, const shell_words *w, int from);

/* The words of a launcher (torchrun, srun, ...) before the training program: sizes are taken, the
 * rest is passed over. */
status reader_launcher(reader *rd, const shell_words *w, int n);

/* Gathers the variables without a value in this text as missing for the flag. */
void reader_marks(reader *rd, const char *text, const char *flag);

/* NAME=value: a variable that is a knob is taken. Returns whether it was one. */
status reader_environment(reader *rd, const char *word, bool *taken);

/* bridge_launch.c: Megatron-Bridge's launcher. The words behind the program: the recipe's name says
 * which model, the rest are overrides. What the recipe itself sets is not read; a note says so. */
bool bridge_launches(const char *program);
status bridge_launch(reader *rd, const shell_words *w, int from);

/* What Megatron-LM does after all flags were read; then all trouble in one message. */
status reader_finish(reader *rd);

/* ---- kinds of files; options may be NULL */
status megatron_script(reader *rd, const char *data, size_t n, shell_set *sets,
                       const megatron_options *o);
status megatron_yaml(reader *rd, const char *data, size_t n, shell_set *sets,
                     const megatron_options *o);
bool megatron_is_yaml(const char *data, size_t n);
bool megatron_is_script(const char *data, size_t n);

#endif
