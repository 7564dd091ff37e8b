/* SPDX-License-Identifier: Apache-2.0
 *
 * The bundle that is built into the library.  Compiled with
 * -DBW_EMBED_BUNDLE='"path/to/barewarp.bundle"' the file's bytes become part of this
 * object (which then depends on that file); compiled without, there is none.  Both
 * are needed: the program that packs the bundle is linked before there is one.
 */
#include "embedded.h"

#ifdef BW_EMBED_BUNDLE

/* .incbin rather than an array in C: a megabyte of initializers costs a compiler
 * seconds, the assembler nothing. */
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        ".hidden bwi_embedded_begin\n"
        ".globl bwi_embedded_begin\n"
        "bwi_embedded_begin:\n"
        ".incbin \"" BW_EMBED_BUNDLE "\"\n"
        ".hidden bwi_embedded_end\n"
        ".globl bwi_embedded_end\n"
        "bwi_embedded_end:\n"
        ".byte 0\n"
        ".popsection\n");

extern const unsigned char bwi_embedded_begin[] __attribute__((visibility("hidden")));
extern const unsigned char bwi_embedded_end[] __attribute__((visibility("hidden")));

const void *bwi_embedded_bundle(size_t *size) {
  *size = (size_t)(bwi_embedded_end - bwi_embedded_begin);
  return bwi_embedded_begin;
}

#else

const void *bwi_embedded_bundle(size_t *size) {
  *size = 0;
  return NULL;
}

#endif
