/* fast_gdn_conv.h - the convolution of the fast gated delta net, which has a file of its own. */
#ifndef BACKEND_CPU_KERNELS_FAST_GDN_CONV_H
#define BACKEND_CPU_KERNELS_FAST_GDN_CONV_H

#include "backend/kernels/kernels.h"

bool fast_conv_accepts(const op *o, const op_types *t);
void fast_conv(const op *o, void *const *in, void *const *out);
void fast_conv_d(const op *o, void *const *in, void *const *out);
void fast_conv_w(const op *o, void *const *in, void *const *out);

#endif
