/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops that poll one word (or vector) of global memory; see poll.h.
 *
 * Executing their laps would be most of what a kernel costs that waits for other GPUs: here
 * their lanes are parked until the bytes differ from those that they loaded, or until a time
 * drawn from the seed is over, for the loop may count its rounds or look at a clock.
 */
#include "poll.h"

#include "warp_memory.h"

#define LONGEST 256 /* instructions of a loop that is looked at */
#define NO_POLL UINT16_MAX
#define POLL_TIME                                                                                  \
  16384                /* virtual time until a lap goes round anyway: up to that for few warps,    \
                        */
#define POLL_STEP 2048 /* in multiples of this, so that many can be looked at together */

/* ---- which loops ------------------------------------------------------------------------ */

static bool in_family(const struct insn *I, const char *name) {
  for (const struct form_family *f = form_families; f->name; f++)
    if (!strcmp(f->name, name))
      for (const struct form *row = f->form; row->pattern; row++)
        if (row == I->form)
          return true;
  return false;
}

/* Computes in registers alone. */
static bool computes(const struct insn *I) {
  static const char *const families[] = {"integer",
                                         "logic and shift",
                                         "float",
                                         "half and packed float",
                                         "approximate functions",
                                         "compare and select",
                                         "convert",
                                         "convert pairs",
                                         "move"};
  for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
    if (in_family(I, families[i]))
      return true;
  return false;
}

/* Reads what cannot change while the kernel runs. */
static bool loads_constants(const struct insn *I) {
  return !strncmp(I->form->pattern, "ld[", 3) &&
         (insn_has(I, MOD_param) || insn_has(I, MOD_param__entry) || insn_has(I, MOD_const));
}

static bool is_branch(const struct insn *I) {
  return !strncmp(I->form->pattern, "bra", 3) && I->opd[0].kind == OPD_label;
}

static bool loads_strongly(const struct insn *I) {
  static const char *const forms[] = {"ld.volatile", "ld{.relaxed|.acquire}", "ld.mmio"};
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
    if (!strncmp(I->form->pattern, forms[i], strlen(forms[i])))
      return I->opd[1].kind == OPD_addr && mod_bits((enum mod)I->type[I->types - 1]) <= 64;
  return false;
}

/* The destination of I may change the register: it is the first operand. */
static bool writes(const struct insn *I, int32_t reg) {
  const struct opd *o = &I->opd[0];
  if (!I->nopd)
    return false;
  for (unsigned i = 0; i < o->n && o->kind == OPD_vec; i++)
    if (o->elem[i].kind == OPD_reg && o->elem[i].reg == reg)
      return true;
  return o->kind == OPD_reg && (o->reg == reg || o->pair == reg);
}

/* Does I leave alone the address of the load, and unless it is the load what that loaded? */
static bool respects(const struct insn *I, const struct insn *load) {
  const struct opd *to = &load->opd[0], *from = &load->opd[1];
  if (is_branch(I))
    return true;
  if (from->n && writes(I, from->elem[0].reg))
    return false;
  if (I == load)
    return true;
  for (unsigned i = 0; i < to->n && to->kind == OPD_vec; i++)
    if (to->elem[i].kind == OPD_reg && writes(I, to->elem[i].reg))
      return false;
  return to->kind != OPD_reg || !writes(I, to->reg);
}

/* Distance from the branch at pc back to the load of the loop that it closes. */
static uint16_t look(const struct function *fn, uint32_t pc, uint32_t head) {
  const struct insn *load = NULL;
  if (pc - head > LONGEST)
    return NO_POLL;
  for (uint32_t i = head; i <= pc; i++) {
    const struct insn *I = &fn->insn[i];
    if (loads_strongly(I) && !load)
      load = I;
    else if (is_branch(I) ? i < pc && I->opd[0].imm <= i : !computes(I) && !loads_constants(I))
      return NO_POLL;
  }
  if (!load)
    return NO_POLL;
  for (uint32_t i = head; i <= pc; i++)
    if (!respects(&fn->insn[i], load))
      return NO_POLL;
  return (uint16_t)(pc - load->index);
}

static const struct insn *load_of(const struct function *fn, uint32_t pc, uint32_t head) {
  struct insn *branch = &fn->insn[pc];
  if (!is_branch(branch) || branch->opd[0].imm != head)
    return NULL;
  if (!branch->polls)
    branch->polls = look(fn, pc, head);
  return branch->polls == NO_POLL ? NULL : &fn->insn[pc - branch->polls];
}

const struct insn *poll_at(const struct warp *w, uint32_t pc) {
  const struct function *fn = w->fn;
  for (uint32_t i = pc; i < fn->ninsn && i - pc <= LONGEST; i++) {
    const struct insn *I = &fn->insn[i];
    if (is_branch(I) && I->opd[0].imm <= pc)
      return load_of(fn, i, (uint32_t)I->opd[0].imm);
  }
  return NULL;
}

/* ---- waiting ---------------------------------------------------------------------------- */

/* There is memory behind the lanes' addresses, and its bytes are those that they loaded. */
static bool unchanged(const struct warp *w, const struct insn *load, uint32_t lanes) {
  struct machine *m = w->cta->grid->dev->m;
  const struct opd *to = &load->opd[0], *from = &load->opd[1];
  const uint32_t n = load->vec, bytes = mod_bits((enum mod)load->type[load->types - 1]) / 8;
  FOR_LANES(l, lanes) {
    uint64_t addr = from->imm;
    if (from->n)
      addr = (w->r[(size_t)from->elem[0].reg * WARP + l] + addr) & low_mask(from->elem[0].bits);
    const struct mem *mem = global_find(m, addr);
    uint64_t at = mem ? addr - mem->base : 0;
    if (!mem || mem->freed || !mem->data || mem->size - at < (uint64_t)n * bytes)
      return false;
    for (uint32_t i = 0; i < n; i++) {
      const struct opd *d = to->kind == OPD_vec ? &to->elem[i] : to;
      if (d->kind == OPD_reg &&
          memcmp(&w->r[(size_t)d->reg * WARP + l], mem->data + at + (size_t)i * bytes, bytes) != 0)
        return false;
    }
  }
  return true;
}

static bool changed(const struct wait *wait) {
  const struct warp *w = wait->object;
  uint32_t lanes = w->simt.group[wait - w->wait] & w->waiting;
  return !unchanged(w, &w->fn->insn[wait->arg], lanes);
}

bool poll_waits(const struct wait *wait) {
  return wait->ready == changed;
}

bool poll_park(struct machine *m, struct warp *w, uint32_t pc, uint32_t head, uint32_t lanes) {
  const struct insn *load = load_of(w->fn, pc, head);
  if (!load || !unchanged(w, load, lanes))
    return false;
  uint64_t scale = sched_scale(m);
  uint64_t due = m->now + 1 + draw_stream(m, STREAM_poll) % (POLL_TIME * scale);
  warp_wait(w, lanes,
            (struct wait){.ready = changed,
                          .object = w,
                          .arg = load->index,
                          .deadline = due + POLL_STEP * scale - due % (POLL_STEP * scale),
                          .what = "memory to change: it polls",
                          .address = pc});
  return true;
}
