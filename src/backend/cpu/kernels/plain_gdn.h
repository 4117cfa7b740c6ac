/* plain_gdn.h - the rule of row 0, which has a file of its own. */
#ifndef BACKEND_CPU_KERNELS_PLAIN_GDN_H
#define BACKEND_CPU_KERNELS_PLAIN_GDN_H

#include "backend/kernels/kernels.h"

bool plain_gdn_rule_accepts(const op *o, const op_types *t);
void plain_gdn_rule(const op *o, void *const *in, void *const *out);
void plain_gdn_rule_d(const op *o, void *const *in, void *const *out);

#endif
