/* yaml.h - a YAML file as a tree with line numbers.
 *
 * One document a file. Anchors and aliases work, but an alias inside its own anchor is refused, and
 * so is a file whose aliases would unfold to more than YAML_NODES_MAX nodes. */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"

enum { YAML_NODES_MAX = 100000, YAML_DEPTH_MAX = 32, YAML_BYTES_MAX = 1 << 20 };

typedef enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP } yaml_kind;

typedef struct yaml_node {
    yaml_kind kind;
    int line, column;         /* from 1 */
    const char *text;         /* scalar */
    bool quoted;              /* scalar in quotes or a block: text, whatever it looks like */
    const char *key;          /* when it is a member of a map */
    struct yaml_node **items; /* list, map */
    int n_items;
    int weight; /* nodes below and itself, aliases unfolded */
} yaml_node;

/* `name` stands in messages for the file. An empty document gives an empty map. */
status yaml_parse(arena *a, const char *name, const char *data, size_t n, yaml_node **root,
                  error *err);

#endif
