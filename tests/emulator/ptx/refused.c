/* SPDX-License-Identifier: Apache-2.0
 *
 * Scalar and control instructions of PTX that are not emulated, by name.
 */
#include "ptx.h"

#define TEXTURE "textures and surfaces are not emulated"
#define VIDEO   "video instructions are not emulated"
#define STACK   "dynamic stack allocation is not emulated"
#define UNSYNC  "sm_70 and later have only the .sync form"

const struct refused ptx_refused[] = {
    {"tex", NULL, TEXTURE},
    {"tld4", NULL, TEXTURE},
    {"txq", NULL, TEXTURE},
    {"istypep", NULL, TEXTURE},
    {"suld", NULL, TEXTURE},
    {"sust", NULL, TEXTURE},
    {"sured", NULL, TEXTURE},
    {"suq", NULL, TEXTURE},
    {"vadd", NULL, VIDEO},
    {"vsub", NULL, VIDEO},
    {"vabsdiff", NULL, VIDEO},
    {"vmin", NULL, VIDEO},
    {"vmax", NULL, VIDEO},
    {"vshl", NULL, VIDEO},
    {"vshr", NULL, VIDEO},
    {"vmad", NULL, VIDEO},
    {"vset", NULL, VIDEO},
    {"vadd2", NULL, VIDEO},
    {"vadd4", NULL, VIDEO},
    {"vsub2", NULL, VIDEO},
    {"vsub4", NULL, VIDEO},
    {"vavrg2", NULL, VIDEO},
    {"vavrg4", NULL, VIDEO},
    {"vabsdiff2", NULL, VIDEO},
    {"vabsdiff4", NULL, VIDEO},
    {"vmin2", NULL, VIDEO},
    {"vmin4", NULL, VIDEO},
    {"vmax2", NULL, VIDEO},
    {"vmax4", NULL, VIDEO},
    {"vset2", NULL, VIDEO},
    {"vset4", NULL, VIDEO},
    {"alloca", NULL, STACK},
    {"stacksave", NULL, STACK},
    {"stackrestore", NULL, STACK},
    {"cvt", "rs", "stochastic rounding (.rs) is not emulated"},
    {"fma", "oob", ".oob is not emulated"},
    {NULL, NULL, NULL},
};
