/* SPDX-License-Identifier: Apache-2.0
 *
 * What ops_cvt.c and ops_cvt_pack.c share.
 */
#ifndef EMU_CVT_H
#define EMU_CVT_H

#include "fp.h"
#include "ops.h"

struct cvt_op {
  enum fp_round round;
  bool integral, ftz, sat, relu, satfinite;
};
struct cvt_op cvt_op_of(const struct insn *I);
/* With saturation, relu and the clamp to finite numbers applied. */
uint32_t cvt_encode(double v, const struct fp_format *f, const struct cvt_op *c);

#endif
