/* gpus.c - GPUs as they are sold. */
#include "hardware/gpus.h"

#include <string.h>
#include <strings.h>

#define GIB(x) ((int64_t)((x)*1073741824.0))

/* Memory is what a program sees, since that is what "fits" means, as hardware/NAME.yaml has it with
 * its source. A100 and H800 are the same 80 GB as an H100.
 * `cpu` is any machine's cores; `local` is this machine as `moefold bench` measured it. */
static const gpu gpus[] = {
    {"A100", NULL, ARCH_AMPERE, GIB(79.1), 8, 8},
    {"H100", NULL, ARCH_HOPPER, GIB(79.1), 8, 8},
    {"H200", NULL, ARCH_HOPPER, GIB(139.8), 8, 8},
    {"H800", NULL, ARCH_HOPPER, GIB(79.1), 8, 8},
    {"B200", NULL, ARCH_BLACKWELL, GIB(178.35), 8, 8},
    {"B300", NULL, ARCH_BLACKWELL, GIB(267.69), 8, 8},
    {"GB200", NULL, ARCH_BLACKWELL, GIB(184.3), 4, 72},
    {"GB300", NULL, ARCH_BLACKWELL, GIB(276.5), 4, 72},
    {"cpu", NULL, ARCH_CPU, 0, 1024, 1024},
    {"local", NULL, ARCH_CPU, 0, 1024, 1024},
};

const gpu *gpu_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof gpus / sizeof gpus[0]; i++)
        if (strcasecmp(gpus[i].name, name) == 0) return &gpus[i];
    return NULL;
}

const gpu *gpu_at(int i)
{
    return i >= 0 && (size_t)i < sizeof gpus / sizeof gpus[0] ? &gpus[i] : NULL;
}

static const struct arch_word {
    const char *word;
    gpu_arch arch;
} arch_table[] = {
    {"cpu", ARCH_CPU},
    {"ampere", ARCH_AMPERE},
    {"hopper", ARCH_HOPPER},
    {"blackwell", ARCH_BLACKWELL},
};
const char gpu_arch_words[] = "ampere, hopper, blackwell or cpu";

const char *gpu_arch_word(gpu_arch arch)
{
    for (size_t i = 0; i < sizeof arch_table / sizeof arch_table[0]; i++)
        if (arch_table[i].arch == arch) return arch_table[i].word;
    return "";
}

bool gpu_arch_find(const char *word, gpu_arch *arch)
{
    for (size_t i = 0; i < sizeof arch_table / sizeof arch_table[0]; i++) {
        if (strcmp(arch_table[i].word, word) != 0) continue;
        *arch = arch_table[i].arch;
        return true;
    }
    return false;
}
