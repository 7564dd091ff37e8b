/* SPDX-License-Identifier: Apache-2.0
 *
 * What ptxas made of a kernel: its -v log and the cubin's ELF sections.
 */
#include "bytes.h"
#include "error.h"
#include "ptx_facts.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the log -------------------------------------------------------------------- */

/* The number that stands before `unit` ("8 registers") in a line of the log: 0 if
 * the line has none. */
static uint32_t number_before(const char *text, const char *end, const char *unit) {
  const char *at = strstr(text, unit);
  if (!at || at >= end)
    return 0;
  while (at > text && at[-1] == ' ')
    at--;
  while (at > text && isdigit((unsigned char)at[-1]))
    at--;
  return (uint32_t)strtoul(at, NULL, 10);
}

static const char *line_end(const char *at) {
  return at + strcspn(at, "\n");
}

bw_status bwi_ptxas_log_read(const char *path, const char *text, bw_kernel_info *info) {
  char wanted[512];
  (void)snprintf(wanted, sizeof wanted, "Compiling entry function '%s' for '%s'", info->symbol,
                 info->arch);
  const char *at = strstr(text, wanted);
  if (!at)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: not ptxas -v of '%s' for '%s'", path,
                    info->symbol, info->arch);
  const char *frame = strstr(at, "bytes stack frame");
  const char *used = strstr(at, "Used ");
  if (!frame || !used)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: ptxas -v reports no resources of '%s'", path,
                    info->symbol);
  while (frame > at && frame[-1] != '\n')
    frame--;
  const char *end = line_end(frame);
  if (number_before(frame, end, "bytes stack frame") != 0 ||
      number_before(frame, end, "bytes spill stores") != 0 ||
      number_before(frame, end, "bytes spill loads") != 0)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: '%s' has a stack frame or spills: %.*s", path,
                    info->symbol, (int)(end - frame), frame);
  end = line_end(used);
  info->registers = number_before(used, end, "registers");
  info->barriers = number_before(used, end, "barriers");
  info->shared_static = number_before(used, end, "bytes smem");
  if (info->registers == 0)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: ptxas -v reports no registers of '%s'", path,
                    info->symbol);
  return BW_OK;
}

/* ---- the cubin -------------------------------------------------------------------- */

/* ELF64, little-endian (System V ABI, chapter 4).  A cubin names a section after
 * each function: .text.F its code, .nv.local.F its local memory. */
enum {
  ELF_HEADER_SIZE = 64,
  ELF_MACHINE = 18,
  ELF_SECTIONS = 40,
  ELF_SECTION_ENTRY_SIZE = 58,
  ELF_SECTION_COUNT = 60,
  ELF_NAMES_SECTION = 62,
  ELF_MACHINE_CUDA = 190,
  SECTION_SIZE = 64, /* of one section header */
  SECTION_OFFSET = 24,
  SECTION_BYTES = 32
};

typedef struct elf {
  const uint8_t *data;
  size_t size;
  uint64_t sections; /* offset of the section headers */
  uint32_t count;
  const char *names;
  uint64_t names_size;
} elf;

static uint32_t get_u16(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static const uint8_t *section(const elf *e, uint32_t index) {
  return e->data + e->sections + (uint64_t)index * SECTION_SIZE;
}

static bool open_elf(elf *e) {
  static const uint8_t ident[] = {0x7F, 'E', 'L', 'F', 2 /* 64 bits */, 1 /* little-endian */};
  if (e->size < ELF_HEADER_SIZE || memcmp(e->data, ident, sizeof ident) != 0 ||
      get_u16(e->data + ELF_MACHINE) != ELF_MACHINE_CUDA ||
      get_u16(e->data + ELF_SECTION_ENTRY_SIZE) != SECTION_SIZE)
    return false;
  e->sections = bwi_get_u64(e->data + ELF_SECTIONS);
  e->count = get_u16(e->data + ELF_SECTION_COUNT);
  uint32_t names = get_u16(e->data + ELF_NAMES_SECTION);
  if (!bwi_within(e->sections, (uint64_t)e->count * SECTION_SIZE, e->size) || names >= e->count)
    return false;
  uint64_t offset = bwi_get_u64(section(e, names) + SECTION_OFFSET);
  e->names_size = bwi_get_u64(section(e, names) + SECTION_BYTES);
  if (!bwi_within(offset, e->names_size, e->size) || e->names_size == 0)
    return false;
  e->names = (const char *)e->data + offset;
  return e->names[e->names_size - 1] == '\0';
}

bw_status bwi_cubin_read(const char *path, const void *cubin, size_t size, bw_kernel_info *info) {
  elf e = {.data = cubin, .size = size};
  if (!open_elf(&e))
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: not a cubin", path);
  uint32_t functions = 0;
  uint64_t code_bytes = 0;
  bool found = false;
  for (uint32_t i = 0; i < e.count; i++) {
    uint32_t name_offset = bwi_get_u32(section(&e, i));
    if (name_offset >= e.names_size)
      return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: a damaged cubin", path);
    const char *name = e.names + name_offset;
    if (strncmp(name, ".nv.local.", 10) == 0)
      return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: '%s' uses local memory", path, name + 10);
    if (strncmp(name, ".text.", 6) != 0)
      continue;
    functions++;
    if (strcmp(name + 6, info->symbol) == 0) {
      found = true;
      code_bytes = bwi_get_u64(section(&e, i) + SECTION_BYTES);
    }
  }
  if (!found || functions != 1)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "%s: has %" PRIu32 " functions, must have '%s' and no other", path, functions,
                    info->symbol);
  if (code_bytes == 0 || code_bytes > UINT32_MAX)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: '%s' has %" PRIu64 " bytes of code", path,
                    info->symbol, code_bytes);
  info->code_bytes = (uint32_t)code_bytes;
  return BW_OK;
}
