/* SPDX-License-Identifier: Apache-2.0
 */
#include "conformance/define.h"

const struct definition definitions_cuda[] = {
    {NULL, NULL},
};
